package chaining_test

import (
	"fmt"

	"github.com/holdfast-cni/holdfast/chaining"
)

func Example() {
	list, err := chaining.Parse([]byte(`{
  "cniVersion": "1.0.0",
  "name": "pods",
  "plugins": [
    {"type": "ptp"}
  ]
}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	entry, err := chaining.ParseEntry([]byte(`{"type": "holdfast-cni"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	verdict := chaining.Check(list, entry)
	fmt.Println(verdict.Reason, verdict.Differences)

	chained, err := list.Append(entry)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(chained.Bytes()))
	fmt.Println(chaining.Check(chained, entry).Reason == chaining.Chained)
	// Output:
	// EntryMissing [plugins[1]: want {"type":"holdfast-cni"}, have nothing]
	// {
	//   "cniVersion": "1.0.0",
	//   "name": "pods",
	//   "plugins": [
	//     {"type": "ptp"},
	//     {"type": "holdfast-cni"}
	//   ]
	// }
	// true
}
