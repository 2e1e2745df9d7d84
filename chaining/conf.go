package chaining

import (
	"strconv"
	"strings"
)

// ParseConf reads the configuration of a single plugin, the content of a .conf file, and makes a list of it: name and
// version are the plugin's own, and its bytes stand in the list as they were (libcni v1.3.1, ConfListFromConf).
// Besides what [ParseEntry] refuses, the name must be one a network can have. Paths in errors are those in data.
func ParseConf(data []byte) (List, error) {
	root, err := parse(data)
	if err != nil {
		return List{}, err
	}
	if f := checkPlugin(&root); f != nil {
		return List{}, f
	}
	name := root.member("name")
	if f := checkName(name, "the network's name"); f != nil {
		return List{}, f.under("name")
	}
	version, f := givenVersion(&root)
	if f != nil {
		return List{}, f
	}

	// Name and version need no escaping: their characters are checked.
	var list strings.Builder
	list.WriteString("{\n")
	if version != "" {
		list.WriteString(`  "cniVersion": ` + strconv.Quote(version) + ",\n")
	}
	list.WriteString(`  "name": ` + strconv.Quote(name.text) + ",\n  \"plugins\": [\n    ")
	list.Write(data[root.start:root.end])
	list.WriteString("\n  ]\n}\n")
	return Parse([]byte(list.String()))
}
