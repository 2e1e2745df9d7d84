package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/holdfast-cni/holdfast/agent/adopt"
	"github.com/holdfast-cni/holdfast/lock"
)

// ranges4 and ranges6 lie apart, so that none is left out of the lock.
func ranges4(first byte, bits int) (all []netip.Prefix) {
	for i := range most {
		all = append(all, netip.PrefixFrom(netip.AddrFrom4([4]byte{first, byte(i >> 7), byte(i << 1), 0}), bits))
	}
	return all
}

func ranges6(first, second byte, bits int) (all []netip.Prefix) {
	for i := range most {
		all = append(all, netip.PrefixFrom(netip.AddrFrom16([16]byte{first, second, byte(i >> 7), byte(i << 1)}), bits))
	}
	return all
}

func addressesOf(prefixes []netip.Prefix) (all []netip.Addr) {
	for _, prefix := range prefixes {
		all = append(all, prefix.Addr())
	}
	return all
}

func manyPorts() (all []uint16) {
	for i := range most {
		all = append(all, uint16(20000+i))
	}
	return all
}

// quoted writes a list as JSON.
func quoted[T any](t *testing.T, list []T) string {
	t.Helper()
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// I1: what Validate accepts, the kernel takes: with each list as long as it may be, of one family or the other, ADD succeeds.
func TestTheLongestListsAreLocked(t *testing.T) {
	for name, list := range map[string]struct {
		allow, refuse []netip.Prefix
		resolvers     []netip.Addr
	}{
		"IPv4": {ranges4(10, 24), ranges4(11, 24), addressesOf(ranges4(12, 32))},
		"IPv6": {ranges6(0xfd, 1, 64), ranges6(0x2a, 2, 64), addressesOf(ranges6(0xfd, 3, 128))},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlugin(t, lend)
			stdin := strings.Replace(string(configOf("1.1.0", fmt.Sprintf(`,"allowPrivate":%s,"refuse":%s,"ingress":{"ports":%s}`,
				quoted(t, list.allow), quoted(t, list.refuse), quoted(t, manyPorts())))),
				`["10.96.0.10","fd00:96::a"]`, quoted(t, list.resolvers), 1)
			args := argsOf(holdNetns(t, false), []byte(stdin))
			if _, err := p.add(t.Context(), args); err != nil {
				t.Fatal(err)
			}
			if err := p.check(args); err != nil {
				t.Errorf("CHECK: %v", err)
			}
		})
	}
}

// With both families at once, and every other field as long as it may be, the kernel still takes the lock, and the record still fits
// the state file and the wire. (I1)
func TestTheLongestRecordFits(t *testing.T) {
	var got adopt.Request
	p := newPlugin(t, func(_ context.Context, r adopt.Request) error { got = r; return nil })
	rules, err := lock.Build(lock.Config{
		UID: lock.SidecarUID, GID: lock.SidecarGID, HealthPort: lock.HealthPort, IngressPorts: manyPorts(),
		Resolvers:    append(addressesOf(ranges4(12, 32)), addressesOf(ranges6(0xfd, 3, 128))...),
		AllowPrivate: append(ranges4(10, 24), ranges6(0xfd, 1, 64)...), Refuse: append(ranges4(11, 24), ranges6(0x2a, 2, 64)...),
	})
	if err != nil {
		t.Fatal(err)
	}
	netns, err := lock.Open(holdNetns(t, true))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = netns.Close() }()
	record, err := netns.Apply(rules)
	if err != nil {
		t.Fatal(err)
	}
	for i, set := range record.Sets {
		if strings.HasPrefix(set.Name, "refused") && len(set.Elements) < 2*most {
			t.Errorf("set %s (%d) holds %d elements: the ranges of the test overlap", set.Name, i, len(set.Elements))
		}
	}
	kept, err := record.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	boot, err := adopt.Boot()
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("<", 253) // JSON writes it as six
	request := adopt.Request{
		Version: adopt.Version, ContainerID: strings.Repeat("c", 200), NetNS: "/" + strings.Repeat("<", 4094),
		Network: long, IfName: long, Device: 1 << 63, Inode: 1 << 63, Boot: boot,
		Namespace: long, Name: long, UID: long, Rules: rules.Digest(), Record: kept,
	}
	if err := p.States.Write(request); err != nil {
		t.Fatal(err)
	}
	if _, err := p.States.Read(request.ContainerID); err != nil {
		t.Error(err)
	}
	if err := adopt.Adopt(t.Context(), p.Socket, request); err != nil || len(got.Record) != len(kept) {
		t.Errorf("%d bytes of %d came to the agent: %v", len(got.Record), len(kept), err)
	}
	t.Logf("the record has %d bytes", len(kept))
	if err := netns.Verify(record); err != nil {
		t.Error(err)
	}
}
