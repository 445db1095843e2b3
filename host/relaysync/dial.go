package relaysync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"talon/host"
	"talon/host/netguard"
	"talon/host/relayclient"
	"talon/host/relaysync/loop"
	"talon/host/relaysync/session"
	"talon/host/throttle"
	"talon/sdk/abi"
)

// Dialer makes connections to relays. A test may have one of its own.
type Dialer interface {
	// Inform reads a relay's information document (NIP-11).
	Inform(ctx context.Context, url string) (*Information, error)

	// Dial opens a connection.
	Dial(ctx context.Context, url string) (Conn, error)
}

// Conn is a connection to a relay. One goroutine reads, one writes, and any may close it.
type Conn interface {
	Read() ([]byte, error) // a message
	Write(text []byte) error
	Ping() error
	Received() int64 // bytes, messages that are not whole included
	Close() error
}

// netDialer connects over the network.
type netDialer struct {
	cfg   *Config
	guard *netguard.Guard
}

func (d *netDialer) Dial(ctx context.Context, url string) (Conn, error) {
	return relayclient.DialSocket(ctx, url, relayclient.SocketOptions{
		MessageBytes: d.cfg.Limits.MessageBytes,
		Compress:     true,
		Dial:         d.guard.Dial,
		TLS:          d.cfg.TLS,
		UserAgent:    d.cfg.Agent,
	})
}

// dial asks the relay what it is, if that is not known, and connects.
func (l *line) dial() (Conn, loop.Opened, error) {
	v := l.sync
	opened := loop.Opened{Capabilities: l.request.Capabilities}
	begun := time.Now()
	limit := v.cfg.Limits.ConnectTime
	if within := time.Duration(l.request.Within) * time.Millisecond; within > 0 {
		limit = min(limit, within)
	}
	ctx, cancel := context.WithTimeout(l.ctx, limit)
	defer cancel()
	dialer := v.dialer
	if l.request.Stranger {
		dialer = v.charged
	}
	if l.request.Inform {
		asking, cancel := context.WithTimeout(ctx, limit/2)
		info, err := dialer.Inform(asking, l.relay)
		cancel()
		switch {
		case errors.Is(err, netguard.ErrForbidden), postponed(err) > 0:
			return nil, opened, err
		case err != nil:
			// Not every relay has one.
			v.cfg.Log.Debug("read relay information", "relay", l.relay, "err", err)
		case info.isSelf(v.cfg.Self):
			return nil, opened, fmt.Errorf("%w: it is this relay under another name", netguard.ErrForbidden)
		default:
			opened = info.Opened(&l.request)
		}
	}
	c, err := dialer.Dial(ctx, l.relay)
	opened.Duration = time.Since(begun).Milliseconds()
	return c, opened, err
}

// Information has the parts of a relay's NIP-11 document that we read. Every number is
// what the relay claims.
type Information struct {
	Software   string `json:"software"`
	Version    string `json:"version"`
	Self       string `json:"self"`
	NIPs       []any  `json:"supported_nips"`
	Limitation struct {
		MaxMessage       float64 `json:"max_message_length"`
		MaxSubscriptions float64 `json:"max_subscriptions"`
		MaxFilters       float64 `json:"max_filters"`
		MaxLimit         float64 `json:"max_limit"`
		MaxValues        float64 `json:"max_subscription_values"` // of all filters together (Talon)
		AuthRequired     bool    `json:"auth_required"`
	} `json:"limitation"`
}

var errRedirect = errors.New("the relay's information is behind a redirect, which is not followed")

// Inform fetches the document.
func (d *netDialer) Inform(ctx context.Context, url string) (*Information, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http"+strings.TrimPrefix(url, "ws"), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/nostr+json")
	if d.cfg.Agent != "" {
		req.Header.Set("User-Agent", d.cfg.Agent)
	}
	transport := &http.Transport{
		DialContext:            d.guard.Dial,
		TLSClientConfig:        d.cfg.TLS,
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: 32 << 10,
		ResponseHeaderTimeout:  d.cfg.Limits.ConnectTime / 4,
	}
	client := http.Client{
		Transport:     transport,
		Timeout:       d.cfg.Limits.ConnectTime / 2,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP status %d", res.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, int64(d.cfg.Limits.InfoBytes)))
	if err != nil {
		return nil, err
	}
	var info Information
	// Fields of a wrong type are left out. The others count.
	if err := json.Unmarshal(text, &info); err != nil && !errors.As(err, new(*json.UnmarshalTypeError)) {
		return nil, err
	}
	return &info, nil
}

// Opened combines what is known of a relay with its document.
func (i *Information) Opened(d *loop.Dial) loop.Opened {
	o := loop.Opened{Capabilities: d.Capabilities, Informed: true, Version: i.version()}
	i.addTo(&o.Capabilities)
	o.Capabilities = d.Merge(o.Capabilities, o.Version)
	return o
}

func (i *Information) isSelf(own host.PubKey) bool {
	return own != host.PubKey{} && i.Self == own.String()
}

// version says what the relay is: when it changes, so may its limits.
func (i *Information) version() string {
	return session.Quote(fmt.Sprintf("%s %s %v", i.Software, i.Version, i.Limitation))
}

// addTo adds the contents of the document to the known capabilities. A missing NIP is no
// evidence against support.
func (i *Information) addTo(caps *abi.Capabilities) {
	for _, nip := range i.NIPs {
		if n, ok := nip.(float64); ok && n == 77 && caps.Negentropy == abi.SupportUnknown {
			caps.Negentropy = abi.SupportYes
		}
	}
	count := func(n float64) uint32 {
		if !(n >= 1) {
			return 0
		}
		return uint32(min(n, 1<<30))
	}
	m := &i.Limitation
	caps.MaxMessage = count(m.MaxMessage)
	caps.MaxSubscriptions = count(m.MaxSubscriptions)
	caps.MaxFilters = count(m.MaxFilters)
	caps.MaxLimit = count(m.MaxLimit)
	caps.MaxValues = count(m.MaxValues)
	caps.AuthRequired = m.AuthRequired
}

// Classify returns how an attempt or a connection ended.
func Classify(err error, wasUp bool) loop.Ended {
	r := loop.ConnResult{Outcome: loop.OutcomeUnreachable}
	if err != nil {
		r.Reason = session.Quote(err.Error())
	}
	class := uint32(abi.ClassUnreachable)
	if wasUp {
		class, r.Outcome = abi.ClassLost, loop.OutcomeDisconnected
	}
	var status *relayclient.StatusError
	switch {
	case errors.Is(err, netguard.ErrForbidden):
		class, r.Outcome = abi.ClassForbidden, loop.OutcomeRefused
	case postponed(err) > 0:
		return loop.Ended{Class: class, Result: r, Postponed: postponed(err)}
	case errors.Is(err, errRestart):
		return loop.Ended{Class: abi.ClassLost, Result: r, Restart: true}
	case errors.Is(err, errViolations), errors.Is(err, relayclient.ErrWebsocket):
		class, r.Outcome = abi.ClassError, loop.OutcomeProtocol
	case errors.As(err, &status):
		r.Status = status.Status
		switch {
		case status.Status == http.StatusTooManyRequests:
			class, r.Outcome = abi.ClassRateLimited, loop.OutcomeRateLimited
		case status.Status == http.StatusUnauthorized || status.Status == http.StatusForbidden:
			class, r.Outcome = abi.ClassRestricted, loop.OutcomeRefused
		case status.Status >= 400:
			// Also a relay that is being deployed says that there is nothing.
			r.Outcome = loop.OutcomeServer
		default:
			r.Outcome = loop.OutcomeProtocol
		}
	case errors.Is(err, relayclient.ErrHandshake):
		r.Outcome = loop.OutcomeProtocol
	default:
		if of := loop.Outcome(throttle.Outcome(err)); of != 0 && (!wasUp || of == loop.OutcomeTLS) {
			r.Outcome = of
		}
	}
	return loop.Ended{Class: class, Result: r}
}
