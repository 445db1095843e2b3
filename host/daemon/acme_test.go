package daemon

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"talon/host/bound"
	"talon/host/config"
	"talon/host/contain"
)

// authority is a certificate authority that speaks as much of ACME (RFC 8555) as a client needs. It
// checks a name by TLS-ALPN-01 at an address, and believes every signature.
type authority struct {
	*httptest.Server
	key  crypto.Signer
	cert *x509.Certificate

	mu     sync.Mutex
	check  string // address at which names are checked
	orders int
	name   string
	valid  bool
	issued []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour * 24 * 365),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	a.Server = httptest.NewTLSServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Replay-Nonce", "nonce")
	var jws struct{ Payload string }
	_ = json.NewDecoder(r.Body).Decode(&jws)
	payload, _ := base64.RawURLEncoding.DecodeString(jws.Payload)
	say := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	order := func() map[string]any {
		o := map[string]any{"status": "pending", "identifiers": []any{map[string]string{"type": "dns", "value": a.name}},
			"authorizations": []string{a.URL + "/authorization"}, "finalize": a.URL + "/finalize"}
		switch {
		case a.issued != nil:
			o["status"], o["certificate"] = "valid", a.URL+"/certificate"
		case a.valid:
			o["status"] = "ready"
		}
		return o
	}
	switch r.URL.Path {
	case "/directory":
		say(200, map[string]string{"newNonce": a.URL + "/nonce", "newAccount": a.URL + "/account", "newOrder": a.URL + "/new-order"})
	case "/nonce":
	case "/account":
		w.Header().Set("Location", a.URL+"/account/1")
		say(201, map[string]string{"status": "valid"})
	case "/new-order":
		var ask struct{ Identifiers []struct{ Value string } }
		_ = json.Unmarshal(payload, &ask)
		a.orders, a.name, a.valid, a.issued = a.orders+1, ask.Identifiers[0].Value, false, nil
		w.Header().Set("Location", a.URL+"/order")
		say(201, order())
	case "/order":
		say(200, order())
	case "/authorization":
		status := "pending"
		if a.valid {
			status = "valid"
		}
		say(200, map[string]any{"status": status, "identifier": map[string]string{"type": "dns", "value": a.name},
			"challenges": []any{map[string]string{"type": "tls-alpn-01", "url": a.URL + "/challenge", "token": "token", "status": status}}})
	case "/challenge":
		a.valid = a.checks()
		say(200, map[string]string{"type": "tls-alpn-01", "url": a.URL + "/challenge", "token": "token", "status": "processing"})
	case "/finalize":
		var ask struct{ CSR string }
		_ = json.Unmarshal(payload, &ask)
		a.issue(ask.CSR)
		w.Header().Set("Location", a.URL+"/order")
		say(200, order())
	case "/certificate":
		_ = pem.Encode(w, &pem.Block{Type: "CERTIFICATE", Bytes: a.issued})
		_ = pem.Encode(w, &pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
	default:
		say(404, nil)
	}
}

// checks asks the server for the name's answer to the challenge.
func (a *authority) checks() bool {
	c, err := tls.Dial("tcp", a.check, &tls.Config{ServerName: a.name, NextProtos: []string{"acme-tls/1"}, InsecureSkipVerify: true})
	if err != nil {
		return false
	}
	defer c.Close()
	for _, e := range c.ConnectionState().PeerCertificates[0].Extensions {
		if e.Id.Equal(asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 31}) {
			return true
		}
	}
	return false
}

func (a *authority) issue(csr string) {
	der, _ := base64.RawURLEncoding.DecodeString(csr)
	request, err := x509.ParseCertificateRequest(der)
	if err != nil || !a.valid {
		return
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: request.DNSNames, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour * 24 * 90),
	}
	a.issued, _ = x509.CreateCertificate(rand.Reader, template, a.cert, request.PublicKey, a.key)
}

// serveTLS serves a handler on an address with certificates of the authority, kept in a folder.
func (a *authority) serveTLS(t *testing.T, data string, h http.Handler) (d *Daemon, addr string) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	cfg := &config.Config{Data: data, Domains: []string{"git.example.com"}, ACME: true, ACMEDirectory: a.URL + "/directory"}
	d = &Daemon{cfg: cfg, log: log, conns: newConnections(8, nil, log), http: contain.New(contain.HTTP, log), tls: certificates(cfg, a.Client())}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := d.startListeners([]net.Listener{l}, time.Minute)
	t.Cleanup(e.close)
	e.open(h)
	a.mu.Lock()
	a.check = l.Addr().String()
	a.mu.Unlock()
	return d, l.Addr().String()
}

// clientOf returns a client that believes the authority, and reaches every name at an address.
func (a *authority) clientOf(addr string, protocols ...string) *http.Client {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return &http.Client{Transport: &http.Transport{
		ForceAttemptHTTP2: len(protocols) == 0 || protocols[0] == "h2", TLSClientConfig: &tls.Config{RootCAs: roots, NextProtos: protocols},
		Dial: func(string, string) (net.Conn, error) { return net.Dial("tcp", addr) },
	}}
}

// TestACME gets a certificate for the domain at the first handshake, and none for another name. The
// next start has it.
func TestACME(t *testing.T) {
	a, data := newAuthority(t), t.TempDir()
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) })
	_, addr := a.serveTLS(t, data, hello)
	if _, err := a.clientOf(addr).Get("https://other.example.com/"); err == nil || a.orders != 0 {
		t.Errorf("another name: %v after %d orders", err, a.orders)
	}
	for range 2 {
		for _, protocol := range []string{"h2", "http/1.1"} {
			resp, err := a.clientOf(addr, protocol).Get("https://git.example.com/")
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if want := map[string]string{"h2": "HTTP/2.0", "http/1.1": "HTTP/1.1"}[protocol]; err != nil || string(text) != want {
				t.Errorf("%s: %q, %v", protocol, text, err)
			}
		}
		_, addr = a.serveTLS(t, data, hello)
	}
	if a.orders != 1 {
		t.Errorf("%d certificates were ordered, want 1", a.orders)
	}
}

// TestStreams has each stream of one connection take a place, gives it back, and refuses those
// that the network has no place for.
func TestStreams(t *testing.T) {
	a := newAuthority(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	d, addr := a.serveTLS(t, t.TempDir(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			entered <- struct{}{}
			select {
			case <-leave:
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, "done")
	}))
	client := a.clientOf(addr)
	get := func(path string) int {
		resp, err := client.Get("https://git.example.com" + path)
		if err != nil {
			return 0
		}
		defer resp.Body.Close()
		if _, err := io.ReadAll(resp.Body); err != nil {
			return 0
		}
		return resp.StatusCode
	}
	if status := get("/"); status != 200 {
		t.Fatalf("status %d", status)
	}
	d.conns.pot = bound.NewPot(bound.Spec{Name: "test", Unit: "connections", Total: 3, Yields: "the idlest"})
	statuses := make(chan int)
	for range 3 {
		go func() { statuses <- get("/wait") }()
		<-entered
	}
	if n := d.conns.pot.Used(); n != 3 {
		t.Errorf("%d streams are counted, want 3", n)
	}
	// Loopback is one network per connection: the stalest gives way for the next.
	if status := get("/"); status != 200 && status != 503 {
		t.Errorf("one more: status %d", status)
	}
	close(leave)
	for range 3 {
		<-statuses
	}
	full, err := d.conns.pot.Acquire(bound.Holder{}, 3, nil)
	if err != nil {
		t.Fatalf("places are not given back: %v", err)
	}
	defer full.Release()
	if status := get("/"); status != 503 {
		t.Errorf("without a place: status %d, want 503", status)
	}
}
