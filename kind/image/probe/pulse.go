package main

import (
	"bufio"
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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	answers, longest, lost := 0, time.Duration(0), error(nil)
	go func() {
		conn, err := (&net.Dialer{Timeout: timeout}).DialContext(ctx, "tcp", request.URL.Host)
		for last := time.Now(); err == nil; time.Sleep(100 * time.Millisecond) {
			if err = ask(conn, request); err == nil {
				mu.Lock()
				answers, longest = answers+1, max(longest, time.Since(last))
				mu.Unlock()
				last = time.Now()
			}
		}
		mu.Lock()
		defer mu.Unlock()
		lost = err
	}()
	return listen(ctx, address, func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if lost != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprintf(w, "%d answers, longest pause %s, lost: %v\n", answers, longest.Round(time.Millisecond), lost)
	})
}

// ask sends a request and reads the answer to its end.
func ask(conn net.Conn, request *http.Request) error {
	if err := errors.Join(conn.SetDeadline(time.Now().Add(patience)), request.Write(conn)); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close())
}
