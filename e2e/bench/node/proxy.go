package main

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// proxy stands between install-cni and the API server, with TLS and HTTP/2 as that has, and counts.
type proxy struct {
	server *httptest.Server

	mu   sync.Mutex
	seen traffic
}

// traffic is what went through since it was last taken.
type traffic struct {
	writes    map[string]int // requests that change something, by verb and resource
	reads     int            // requests that do not
	events    int            // that watches told of; a large one is counted more than once
	bookmarks int            // by which a watch tells only where it stands
}

func newProxy(config *rest.Config) (*proxy, error) {
	server := config.Host
	if !strings.Contains(server, "://") {
		server = "https://" + server
	}
	target, err := url.Parse(server)
	if err != nil {
		return nil, fmt.Errorf("read the API server's address %q: %w", config.Host, err)
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(config)) // the client's own token goes through
	if err != nil {
		return nil, fmt.Errorf("make a transport: %w", err)
	}
	p := &proxy{}
	p.server = httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Set("Accept-Encoding", "identity") // the API server would compress watches too, and nobody could tell bookmarks
			p.request(r.In)
		},
		ModifyResponse: p.response, Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
	})
	p.server.EnableHTTP2 = true
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.server.StartTLS()
	return p, nil
}

func (p *proxy) close() {
	p.server.CloseClientConnections()
	p.server.Close()
}

func (p *proxy) request(r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Method == http.MethodGet {
		p.seen.reads++
		return
	}
	if p.seen.writes == nil {
		p.seen.writes = map[string]int{}
	}
	resource := path.Base(r.URL.Path) // of POST
	for _, kind := range []string{"nodes", "events", "configmaps"} {
		if _, rest, found := strings.Cut(r.URL.Path, "/"+kind+"/"); found {
			resource = kind
			if _, sub, found := strings.Cut(rest, "/"); found {
				resource += "/" + sub
			}
		}
	}
	p.seen.writes[r.Method+" "+resource]++
}

func (p *proxy) response(r *http.Response) error {
	if watch := r.Request.URL.Query().Get("watch"); r.Request.Method == http.MethodGet && (watch == "1" || watch == "true") {
		r.Body = &watched{r.Body, p}
	}
	return nil
}

// smallest is less than an event with an object takes, in bytes, and more than a bookmark.
const smallest = 512

// watched counts what a watch tells: the API server sends each event at once, and so each comes in a Read of its own, a large one
// in some.
type watched struct {
	io.ReadCloser
	proxy *proxy
}

func (w *watched) Read(into []byte) (int, error) {
	n, err := w.ReadCloser.Read(into)
	if n > 0 {
		w.proxy.mu.Lock()
		defer w.proxy.mu.Unlock()
		if n < smallest && bytes.Contains(into[:n], []byte("BOOKMARK")) {
			w.proxy.seen.bookmarks++
		} else {
			w.proxy.seen.events++
		}
	}
	return n, err
}

// take returns what went through since the last take.
func (p *proxy) take() traffic {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.seen
	p.seen = traffic{}
	return t
}

// written is how many requests changed something; of some verb and resource, or of all.
func (t traffic) written(prefix string) int {
	n := 0
	for what, times := range t.writes {
		if strings.HasPrefix(what, prefix) {
			n += times
		}
	}
	return n
}

func (t traffic) String() string {
	var text []string
	for _, what := range slices.Sorted(maps.Keys(t.writes)) {
		text = append(text, fmt.Sprintf("%d %s", t.writes[what], what))
	}
	return strings.Join(append(text, fmt.Sprintf("%d reads, %d events, %d bookmarks", t.reads, t.events, t.bookmarks)), ", ")
}

// kubeconfig leads through the proxy.
func (p *proxy) kubeconfig(file, token string) error {
	c := api.NewConfig()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	c.Clusters[release] = &api.Cluster{Server: p.server.URL, CertificateAuthorityData: ca}
	c.AuthInfos[release] = &api.AuthInfo{Token: token}
	c.Contexts[release] = &api.Context{Cluster: release, AuthInfo: release}
	c.CurrentContext = release
	data, err := clientcmd.Write(*c)
	if err != nil {
		return fmt.Errorf("encode kubeconfig %q: %w", file, err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return fmt.Errorf("write a kubeconfig: %w", err)
	}
	return nil
}
