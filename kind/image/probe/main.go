// Command probe is what test pods run: a static binary that serves, asks and waits.
//
//	probe serve [ADDRESS]   answer every HTTP request with the pod's name (default :8080)
//	probe get URL           print the answer of URL; exit 1 on an error or a status other than 200
//	probe dns NAME          print the addresses of NAME
//	probe dial ADDRESS      connect over TCP, print both ends, and send a line a second until the other end closes
//	probe pulse ADDRESS URL ask URL ten times a second over one connection; serve on ADDRESS what came of it
//	probe flood ADDRESS     send what it may to ADDRESS, UDP and TCP, until a signal
//	probe count PORT...     print a line for each packet to those ports that an interface sees
//	probe kill EXECUTABLE   end, by SIGKILL, the next process that runs it, at a random instant of its first milliseconds
//	probe sleep             wait for a signal
//
// Started as "pause" it is the container that holds a pod's namespaces.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

const timeout = 5 * time.Second

func main() {
	args := os.Args[1:]
	if filepath.Base(os.Args[0]) == "pause" {
		args = []string{"sleep"}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, args); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	verb, argument, more := "", "", ""
	if len(args) > 0 {
		verb = args[0]
	}
	if len(args) > 1 {
		argument = args[1]
	}
	if len(args) > 2 {
		more = args[2]
	}
	switch verb {
	case "serve":
		return serve(ctx, argument)
	case "get":
		return get(ctx, argument)
	case "dns":
		return lookup(ctx, argument)
	case "dial":
		return dial(ctx, argument)
	case "pulse":
		return pulse(ctx, argument, more)
	case "flood":
		return flood(ctx, argument)
	case "count":
		return count(ctx, args[1:])
	case "kill":
		return kill(ctx, argument)
	case "sleep":
		return sleep(ctx)
	}
	return fmt.Errorf("unknown verb %q: serve, get, dns, dial, pulse, flood, count, kill or sleep", verb)
}

func serve(ctx context.Context, address string) error {
	if address == "" {
		address = ":8080"
	}
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	return listen(ctx, address, func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%s to %s\n", name, r.RemoteAddr) })
}

func listen(ctx context.Context, address string, handle http.HandlerFunc) error {
	server := &http.Server{Addr: address, ReadHeaderTimeout: timeout, Handler: handle}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.ListenAndServe(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

func get(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(os.Stdout, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s", url, response.Status)
	}
	return nil
}

func lookup(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupHost(ctx, name)
	for _, address := range addresses {
		fmt.Println(address)
	}
	return err
}

// dial keeps one flow alive, for specs that cut a pod off in the middle of it.
func dial(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{Timeout: timeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	fmt.Println(conn.LocalAddr(), conn.RemoteAddr())
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(conn, time.Now().UTC().Format(time.RFC3339)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return nil
}

// sleep waits for a signal. As the first process of a pod it also reaps what others left to it.
func sleep(ctx context.Context) error {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-children:
			for {
				if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
					break
				}
			}
		}
	}
}
