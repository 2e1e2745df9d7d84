package adopt

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func aRequest() Request {
	return Request{
		Version: Version, ContainerID: "c1", NetNS: "/run/netns/x", Network: "cilium", IfName: "eth0", Device: 4, Inode: 4026532000, Boot: "b",
		Namespace: "agents", Name: "p", UID: "u", Rules: strings.Repeat("ab", 32), Record: []byte(`{"flags":0}`),
	}
}

func TestRequestSurvivesTheWire(t *testing.T) {
	for _, path := range []string{"/run/netns/x", "/a \"b\"\\\n<&>\u2028ä"} {
		want := aRequest()
		want.NetNS = path
		encoded, err := want.Encode()
		if err != nil {
			t.Fatal(err)
		}
		var wire bytes.Buffer
		if err := send(&wire, encoded.data, maxRequest); err != nil {
			t.Fatal(err)
		}
		got, err := receiveRequest(&wire)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// I1.
func TestRequestsThatAreNone(t *testing.T) {
	tests := map[string]func(*Request){
		"version":      func(r *Request) { r.Version = 2 },
		"containerID":  func(r *Request) { r.ContainerID = "../c1" },
		"netns":        func(r *Request) { r.NetNS = "netns" },
		"network":      func(r *Request) { r.Network = strings.Repeat("x", 254) },
		"ifname":       func(r *Request) { r.IfName = strings.Repeat("x", 254) },
		"inode":        func(r *Request) { r.Inode = 0 },
		"boot":         func(r *Request) { r.Boot = "" },
		"namespace":    func(r *Request) { r.Namespace = "" },
		"name":         func(r *Request) { r.Name = strings.Repeat("x", 254) },
		"uid":          func(r *Request) { r.UID = "" },
		"rules":        func(r *Request) { r.Rules = "" },
		"record":       func(r *Request) { r.Record = nil },
		"record: miss": func(r *Request) { r.Record = []byte("null") },
	}
	for field, breaks := range tests {
		r := aRequest()
		breaks(&r)
		if err := r.Validate(); !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

// I2.
func TestContainerIDsThatAreSafeInAPath(t *testing.T) {
	for id, safe := range map[string]bool{
		"a": true, "0af.-_9": true, strings.Repeat("f", 64): true,
		"": false, ".": false, "..": false, ".a": false, "-a": false, "a/b": false, "../a": false, "a\x00": false, "ä": false, "a b": false,
		strings.Repeat("f", maxID+1): false,
	} {
		if SafeID(id) != safe {
			t.Errorf("SafeID(%q) is %v", id, !safe)
		}
	}
}

// I1.
func TestRepliesThatAreLies(t *testing.T) {
	frame := func(body string) string { return string([]byte{0, 0, byte(len(body) >> 8), byte(len(body))}) + body }
	tests := map[string]struct {
		sent string
		want error
	}{
		"nothing":           {"", ErrUnreachable},
		"half a length":     {"\x00\x00", ErrUnreachable},
		"half a message":    {frame(`{"ok":true}`)[:8], ErrUnreachable},
		"endless":           {"\xff\xff\xff\xff", ErrAnswer},
		"HTTP":              {"HTTP/1.1 200 OK\r\n\r\n", ErrAnswer},
		"no JSON":           {frame("yes"), ErrAnswer},
		"another kind":      {frame(`{"ok":"true"}`), ErrAnswer},
		"an array":          {frame(`[true]`), ErrAnswer},
		"no answer":         {frame(`{}`), ErrAnswer},
		"null":              {frame(`null`), ErrAnswer},
		"yes and no":        {frame(`{"ok":true,"refusal":{"code":"A","says":"b"}}`), ErrAnswer},
		"a no with no word": {frame(`{"refusal":{}}`), ErrAnswer},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := receiveReply(strings.NewReader(test.sent)); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
	if err := receiveReply(strings.NewReader(frame(`{"ok":true,"from":"a newer release"}`))); err != nil {
		t.Errorf("a yes with a key more: %v", err)
	}
}

func FuzzReceive(f *testing.F) {
	encoded, err := aRequest().Encode()
	if err != nil {
		f.Fatal(err)
	}
	var wire bytes.Buffer
	if err := send(&wire, encoded.data, maxRequest); err != nil {
		f.Fatal(err)
	}
	f.Add(wire.Bytes())
	f.Add([]byte("\x00\x00\x00\x0b{\"ok\":true}"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := receiveRequest(bytes.NewReader(data)); err == nil && r.Validate() != nil {
			t.Errorf("a request that is none: %q", data)
		}
		var refusal *Refusal
		err := receiveReply(bytes.NewReader(data))
		if err != nil && !errors.Is(err, ErrAnswer) && !errors.Is(err, ErrUnreachable) && !errors.As(err, &refusal) {
			t.Errorf("an error of no kind: %v", err)
		}
	})
}

func FuzzParseState(f *testing.F) {
	encoded, err := aRequest().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(encoded.data)
	f.Add(encoded.data[:len(encoded.data)/2])
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseState(data)
		if err == nil && r.Validate() != nil || err != nil && !errors.Is(err, ErrState) {
			t.Errorf("%q: %v", data, err)
		}
	})
}
