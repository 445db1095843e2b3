// Package throttle asks the throttle module how hard to press on the servers of others,
// relays and git servers, and has its caller answer where the module does not. It keeps
// what is known of servers as JSON.
//
// Invariants:
//
//  1. Each question has an answer, whatever the module does.
//  2. A missing module is logged once, a failing one once a minute.
package throttle

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"talon/sdk/abi"
)

// Function is a function of the throttle world.
type Function uint8

const (
	Delay Function = iota
	Admit
	After
	Pick
)

// Questions is the number of questions.
const Questions = int(Pick) + 1

func (q Function) String() string {
	return [Questions]string{"throttle_delay", "throttle_admit", "throttle_after", "throttle_pick"}[q]
}

// ErrNoModule says that there is no throttle module: the operator runs none.
var ErrNoModule = errors.New("no plugin is the throttle")

// Module is the throttle module. Its answer is valid until the next question. An
// error says that it has none, or did not do its part; ErrNoModule that it is not there.
type Module interface {
	Ask(ctx context.Context, q Function, request []byte, now int64) (answer []byte, err error)
}

// Client asks a module about servers of one sort. It belongs to one goroutine at a time.
type Client struct {
	ctx     context.Context // of questions
	module  Module
	servers string
	failed  func(q Function)
	log     *slog.Logger
	request []byte
	logged  int64 // when a failure was logged last, in milliseconds
	absent  bool  // there is no module, which was logged
}

// New returns a client for servers, "relays" say, of a module, which may be nil. It calls
// failed for each question that the module does not answer.
func New(ctx context.Context, m Module, servers string, log *slog.Logger, failed func(q Function)) *Client {
	return &Client{ctx: context.WithoutCancel(ctx), module: m, servers: servers, log: log, failed: failed}
}

// Delay asks when to begin. The fallback answers if the module does not; likewise below.
func (c *Client) Delay(q *abi.DelayRequest, fallback func() abi.DelayAnswer) abi.DelayAnswer {
	c.request = abi.AppendDelayRequest(c.request[:0], q)
	return ask(c, Delay, q.Now, abi.DecodeDelayAnswer, fallback)
}

// Admit asks whether to begin a request or a connection now.
func (c *Client) Admit(q *abi.ThrottleAdmitRequest, fallback func() abi.ThrottleAdmitAnswer) abi.ThrottleAdmitAnswer {
	c.request = abi.AppendThrottleAdmitRequest(c.request[:0], q)
	return ask(c, Admit, q.Now, abi.DecodeThrottleAdmitAnswer, fallback)
}

// After says how a request or a connection ended, and asks when the next may begin.
func (c *Client) After(q *abi.AfterRequest, fallback func() abi.AfterAnswer) abi.AfterAnswer {
	c.request = abi.AppendAfterRequest(c.request[:0], q)
	return ask(c, After, q.Now, abi.DecodeAfterAnswer, fallback)
}

// Pick asks which of those that wait is next.
func (c *Client) Pick(q *abi.PickRequest, fallback func() abi.PickAnswer) abi.PickAnswer {
	c.request = abi.AppendPickRequest(c.request[:0], q)
	decode := func(b []byte) (abi.PickAnswer, error) { return abi.DecodePickAnswer(b, len(q.Waiting)) }
	return ask(c, Pick, q.Now, decode, fallback)
}

// ask asks the module. An answer that makes no sense is a failure.
func ask[A any](c *Client, q Function, now int64, decode func([]byte) (A, error), fallback func() A) A {
	if c.module == nil {
		return fallback()
	}
	b, err := c.module.Ask(c.ctx, q, c.request, now/1000)
	if absent := errors.Is(err, ErrNoModule); absent != c.absent {
		c.absent = absent
		if absent {
			c.log.Warn("no plugin says how hard to press on " + c.servers + ": being careful")
		} else {
			c.log.Info("a plugin says how hard to press on " + c.servers)
		}
	}
	if c.absent {
		return fallback()
	}
	if err == nil {
		var a A
		if a, err = decode(b); err == nil {
			return a
		}
	}
	c.failed(q)
	// A module that fails does so often.
	if now-c.logged >= 60_000 || c.logged > now {
		c.logged = now
		c.log.Warn("the throttle does not answer about "+c.servers+": being careful", "question", q, "err", err)
	}
	return fallback()
}

// Disk keeps records of servers by their names; a nil one is forgotten. Save is durable
// when it returns nil.
type Disk interface {
	Load(ctx context.Context) (map[string][]byte, error)
	Save(ctx context.Context, records map[string][]byte) error
}

// Load reads the records of servers. It returns the names of those that cannot be read as
// damaged.
func Load[R any](ctx context.Context, d Disk, log *slog.Logger) (records map[string]*R, damaged []string, err error) {
	texts, err := d.Load(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("read what is known of servers: %w", err)
	}
	records = make(map[string]*R, len(texts))
	for name, text := range texts {
		r := new(R)
		if err := json.Unmarshal(text, r); err != nil {
			log.Warn("what was known of a server cannot be read", "server", name, "err", err)
			damaged = append(damaged, name)
			continue
		}
		records[name] = r
	}
	return records, damaged, nil
}

// Save writes records, which JSON can have.
func Save[R any](ctx context.Context, d Disk, records map[string]*R) error {
	texts := make(map[string][]byte, len(records))
	for name, r := range records {
		if texts[name] = nil; r != nil {
			texts[name], _ = json.Marshal(r)
		}
	}
	return d.Save(ctx, texts)
}

// Outcome converts a network error for the module. It returns OutcomeUnspecified if the
// error has no clear meaning. A failed look-up by our resolver is no proof that the name
// does not exist.
func Outcome(err error) uint32 {
	var dns *net.DNSError
	var network net.Error
	switch {
	case errors.As(err, &dns) && (dns.IsTimeout || dns.IsTemporary):
		return abi.OutcomeUnreachable
	case errors.As(err, &dns):
		return abi.OutcomeDNS
	case errors.As(err, new(*tls.CertificateVerificationError)), errors.As(err, new(tls.RecordHeaderError)),
		errors.As(err, new(tls.AlertError)), errors.As(err, new(x509.UnknownAuthorityError)),
		errors.As(err, new(x509.HostnameError)), errors.As(err, new(x509.CertificateInvalidError)):
		return abi.OutcomeTLS
	case errors.As(err, &network) && network.Timeout(), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return abi.OutcomeTimeout
	}
	return abi.OutcomeUnspecified
}
