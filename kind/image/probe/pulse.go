package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// patience is how long pulse waits for an answer. TCP sends again meanwhile what was dropped, so that a short gap is a long pause.
const patience = 20 * time.Second

// pulse asks a URL ten times a second over one connection, and never over another. At an address of its own it serves what came of
// it: how many answers, and the longest pause between two; with status 503 once the connection was lost.
func pulse(ctx context.Context, address, url string) error {
	var mu sync.Mutex
	answers, longest, lost := 0, time.Duration(0), error(nil)
	dialled := false
	once := func(ctx context.Context, network, address string) (net.Conn, error) {
		if dialled {
			return nil, errors.New("the connection was lost")
		}
		dialled = true
		return (&net.Dialer{Timeout: timeout}).DialContext(ctx, network, address)
	}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: once}}
	go func() {
		for last := time.Now(); ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
			err := ask(ctx, client, url)
			mu.Lock()
			if lost = err; err == nil {
				answers, longest = answers+1, max(longest, time.Since(last))
			}
			mu.Unlock()
			if err != nil {
				return
			}
			last = time.Now()
		}
	}()
	return listen(ctx, address, func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if lost != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprintf(w, "answers %d longest %s lost %v\n", answers, longest.Round(time.Millisecond), lost)
	})
}

func ask(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body) // to its end, or the connection is not used again
	return errors.Join(err, response.Body.Close())
}
