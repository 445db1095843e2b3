package daemon

import (
	"crypto/tls"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"talon/host/config"
)

// acmeTime bounds one request to a certificate authority.
const acmeTime = time.Minute

// certificates returns how the relay's own address speaks TLS, nil if it speaks plain HTTP. A
// certificate for each domain is asked for at its first handshake, and renewed a month before its
// end. The authority checks the domain on the same address (TLS-ALPN-01), so no other port is
// needed. Handshakes for other names fail before anybody is asked.
func certificates(cfg *config.Config, client *http.Client) *tls.Config {
	if !cfg.ACME {
		return nil
	}
	var names []string
	for _, name := range cfg.Domains {
		if host, _, err := net.SplitHostPort(name); err == nil {
			name = host
		}
		if !strings.HasSuffix(name, ".onion") { // it has no certificate authority, and needs none
			names = append(names, name)
		}
	}
	manager := &autocert.Manager{
		Prompt:     autocert.AcceptTOS,
		Cache:      autocert.DirCache(filepath.Join(cfg.Data, "acme")),
		HostPolicy: autocert.HostWhitelist(names...),
		Email:      cfg.ACMEEmail,
		Client:     &acme.Client{DirectoryURL: cfg.ACMEDirectory, HTTPClient: client, UserAgent: "talon"},
	}
	c := manager.TLSConfig()
	c.MinVersion = tls.VersionTLS12
	return c
}
