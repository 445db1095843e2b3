package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"talon/internal/testkit"
)

// pebble is the certificate authority for tests of Let's Encrypt.
const pebble = "github.com/letsencrypt/pebble/v2"

// TestPebble gets a certificate from Pebble, which checks the name as Let's Encrypt does. After a restart
// the server has it still.
func TestPebble(t *testing.T) {
	if os.Getenv("TALON_TEST_SCALE") == "" {
		t.Skip("it builds a certificate authority: make scale")
	}
	dir := t.TempDir()
	install := exec.Command("go", "install", pebble+"/cmd/pebble@v2.8.0", pebble+"/cmd/pebble-challtestsrv@v2.8.0")
	install.Env = append(environ(), "GOFLAGS=", "GOBIN="+dir)
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("Pebble cannot be built: %v\n%s", err, out)
	}
	where := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", pebble+"@v2.8.0")
	where.Env = append(environ(), "GOFLAGS=-mod=mod")
	where.Dir = dir
	source, err := where.Output()
	if err != nil {
		t.Fatal(err)
	}
	certs := filepath.Join(strings.TrimSpace(string(source)), "test", "certs")
	first := testkit.FreePorts(t, 4)
	at := func(n int) string { return fmt.Sprint("127.0.0.1:", first+n) }
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": at(0), "managementListenAddress": at(1), "tlsPort": first + 3, "httpPort": 1,
		"certificate": filepath.Join(certs, "localhost", "cert.pem"), "privateKey": filepath.Join(certs, "localhost", "key.pem"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	drop(t, dir, "pebble.json", config)
	run := func(name string, args ...string) {
		cmd := exec.Command(filepath.Join(dir, name), args...)
		cmd.Env = append(environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	run("pebble-challtestsrv", "-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-dns01", at(2), "-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-management", "127.0.0.1:0")
	run("pebble", "-config", filepath.Join(dir, "pebble.json"), "-dnsserver", at(2))
	minica, err := os.ReadFile(filepath.Join(certs, "pebble.minica.pem"))
	if err != nil {
		t.Fatal(err)
	}
	authority := x509.NewCertPool()
	authority.AppendCertsFromPEM(minica)
	operator := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority, ServerName: "localhost"}}}
	roots := x509.NewCertPool()
	until(t, "Pebble serves", func() bool {
		answer, err := operator.Get("https://" + at(1) + "/roots/0")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return err == nil && roots.AppendCertsFromPEM(text)
	})

	data := newData(t)
	// serial starts a server, and returns the number of the certificate that it presents.
	serial := func() string {
		t.Helper()
		args := serveArgs(t, data, "--listen", at(3), "--domain", "relay.example.com", "--acme=true", "--acme-directory", "https://"+at(0)+"/dir")
		cmd := exec.Command(realTalon, args...)
		cmd.Env = []string{"SSL_CERT_FILE=" + filepath.Join(certs, "pebble.minica.pem")}
		s := startAs(t, cmd, data)
		defer s.mustStop(t)
		conn, err := tls.Dial("tcp", at(3), &tls.Config{RootCAs: roots, ServerName: "relay.example.com", NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatalf("%v\n%s", err, s.text())
		}
		defer conn.Close()
		if got := conn.ConnectionState().NegotiatedProtocol; got != "h2" {
			t.Errorf("the protocol is %q", got)
		}
		if c, err := tls.Dial("tcp", at(3), &tls.Config{InsecureSkipVerify: true, ServerName: "other.example.com"}); err == nil {
			t.Error("another name has a certificate")
			_ = c.Close()
		}
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	if one, two := serial(), serial(); one != two {
		t.Errorf("after a restart the certificate is %s, before it was %s", two, one)
	}
	if _, err := net.Dial("tcp", at(3)); err == nil {
		t.Error("the server did not stop")
	}
}
