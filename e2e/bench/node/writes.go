package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	sample   = regexp.MustCompile(`^apiserver_request_total\{(.*)\} ([0-9.e+]+)$`)
	label    = regexp.MustCompile(`(\w+)="([^"]*)"`)
	changing = []string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}
)

// writes are the requests of anybody so far that change something, by verb and resource, by the API server's own metrics. Leases
// are left out: the API server renews its own.
func (c *cluster) writes(ctx context.Context) (map[string]int, error) {
	text, err := c.plane.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the API server's metrics: %w", err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(text)) {
		match := sample.FindStringSubmatch(strings.TrimSpace(line))
		if match == nil {
			continue
		}
		labels := map[string]string{}
		for _, l := range label.FindAllStringSubmatch(match[1], -1) {
			labels[l[1]] = l[2]
		}
		if !slices.Contains(changing, labels["verb"]) || labels["resource"] == "leases" {
			continue
		}
		n, err := strconv.ParseFloat(match[2], 64)
		if err != nil {
			return nil, fmt.Errorf("read the API server's metric %q: %w", line, err)
		}
		counts[strings.TrimSuffix(labels["verb"]+" "+labels["resource"]+"/"+labels["subresource"], "/")] += int(n)
	}
	if len(counts) == 0 {
		return nil, errors.New("read the API server's metrics: no apiserver_request_total in them")
	}
	return counts, nil
}

// difference names what was written between two readings.
func difference(before, after map[string]int) (names []string) {
	for _, what := range slices.Sorted(maps.Keys(after)) {
		if n := after[what] - before[what]; n != 0 {
			names = append(names, fmt.Sprintf("%d %s", n, what))
		}
	}
	return names
}
