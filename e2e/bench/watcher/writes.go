package main

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/holdfast-cni/holdfast/watcher"
)

const quietTime = time.Minute

// countWrites counts, by the API server's own metrics, every write of a quiet minute. The metrics name resources, not
// objects; of Leases a watch tells which were written, and the two counts must agree.
func (b *bench) countWrites(ctx context.Context) error {
	leases := &tally{}
	w, err := b.plane.Kube.CoordinationV1().Leases("").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("watch Leases: %w", err)
	}
	defer w.Stop()
	go leases.count(w)
	if err := pause(ctx, time.Second); err != nil { // the watch begins with what is there
		return err
	}
	leases.take()
	before, err := b.writes(ctx)
	if err != nil {
		return err
	}
	if err := pause(ctx, quietTime); err != nil {
		return err
	}
	after, err := b.writes(ctx)
	if err != nil {
		return err
	}
	seen := leases.take()
	own, apiServer := 0, 0
	for name, n := range seen {
		switch {
		case name == namespace+"/"+watcher.ConfigName(release)+"-watcher":
			own += n
		case strings.HasPrefix(name, "kube-system/apiserver-"):
			apiServer += n
		}
	}
	counted, others := 0, []string{}
	for _, what := range slices.Sorted(maps.Keys(after)) {
		n := after[what] - before[what]
		switch {
		case n == 0:
		case strings.HasSuffix(what, " leases"):
			counted += n
		default:
			others = append(others, fmt.Sprintf("%d %s", n, what))
		}
	}
	// One renewal may fall between a reading of the metrics and its event.
	if known := own + apiServer; counted-known > 1 || known-counted > 1 {
		others = append(others, fmt.Sprintf("%d of Leases, of which a watch saw %v", counted, seen))
	}
	measured := fmt.Sprintf("%d (leader Lease %d times, API server's own Lease %d times)", len(others), own, apiServer)
	if len(others) > 0 {
		measured += ": " + strings.Join(others, ", ")
	}
	b.table.Judge("API writes in a quiet minute, but for Leases", measured, "0", len(others) == 0 && own > 0)
	return nil
}

var sample = regexp.MustCompile(`^apiserver_request_total\{(.*)\} ([0-9.e+]+)$`)

// writes are the requests so far that change something, by verb and resource.
func (b *bench) writes(ctx context.Context) (map[string]int, error) {
	text, err := b.plane.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the API server's metrics: %w", err)
	}
	counts := map[string]int{}
	for line := range strings.SplitSeq(string(text), "\n") {
		match := sample.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		verb := label(match[1], "verb")
		if !slices.Contains([]string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}, verb) {
			continue
		}
		n, err := strconv.ParseFloat(match[2], 64)
		if err != nil {
			return nil, fmt.Errorf("read the API server's metric %q: %w", line, err)
		}
		resource := label(match[1], "resource")
		if sub := label(match[1], "subresource"); sub != "" {
			resource += "/" + sub
		}
		counts[verb+" "+resource] += int(n)
	}
	if len(counts) == 0 {
		return nil, fmt.Errorf("read the API server's metrics: no apiserver_request_total in them")
	}
	return counts, nil
}

func label(labels, name string) string {
	for part := range strings.SplitSeq(labels, ",") {
		if value, found := strings.CutPrefix(part, name+`="`); found {
			return strings.TrimSuffix(value, `"`)
		}
	}
	return ""
}

// tally counts changes by object.
type tally struct {
	mu sync.Mutex
	by map[string]int
}

func (t *tally) count(w watch.Interface) {
	for event := range w.ResultChan() {
		if lease, ok := event.Object.(*coordinationv1.Lease); ok {
			t.mu.Lock()
			if t.by == nil {
				t.by = map[string]int{}
			}
			t.by[lease.Namespace+"/"+lease.Name]++
			t.mu.Unlock()
		}
	}
}

// take returns the counts since the last take.
func (t *tally) take() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	by := t.by
	t.by = nil
	return by
}
