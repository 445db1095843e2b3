package attack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"talon/host"
	"talon/host/relayclient"
	"talon/host/schnorr"
	"talon/host/wire"
	"talon/sdk/grasp"
)

// person signs events. A name always has the same key.
type person struct {
	secret [32]byte
	key    host.PubKey
}

func newPerson(name string) *person {
	p := &person{secret: sha256.Sum256([]byte("talon attack " + name))}
	key, err := schnorr.PublicKey(p.secret)
	if err != nil {
		panic(err) // SHA-256 of these names is a key
	}
	p.key = key
	return p
}

// sign returns a signed event that was made ago seconds ago.
func (p *person) sign(kind host.Kind, ago int64, content string, tags ...host.Tag) *host.Event {
	e := &host.Event{Kind: kind, CreatedAt: time.Now().Unix() - ago, Content: content, Tags: tags}
	if err := schnorr.Sign(p.secret, e); err != nil {
		panic(err)
	}
	return e
}

func (p *person) repo(name string) grasp.Repo {
	return grasp.Repo{PubKey: grasp.PubKey(p.key), Identifier: name}
}

func (p *person) address(name string) string { return p.repo(name).Address() }

// announce announces a repository on the target, with further tags.
func (p *person) announce(t *Target, name string, ago int64, tags ...host.Tag) *host.Event {
	return p.sign(30617, ago, "", append([]host.Tag{{"d", name}, {"name", name},
		{"clone", t.url(p.repo(name).Path())}, {"relays", "ws://" + t.Listen}}, tags...)...)
}

// state says that main of a repository is a commit.
func (p *person) state(name, commit string, ago int64) *host.Event {
	return p.sign(30618, ago, "", host.Tag{"d", name}, host.Tag{"refs/heads/main", commit}, host.Tag{"HEAD", "ref: refs/heads/main"})
}

// issue is an issue about somebody's repository.
func (p *person) issue(address string, ago int64, text string) *host.Event {
	return p.sign(1621, ago, text, host.Tag{"a", address}, host.Tag{"subject", "An issue"})
}

func eventMessage(e *host.Event) []byte { return append(append([]byte(`["EVENT",`), e.JSON...), ']') }

// refusal says that the server refused something, with its reason.
type refusal struct{ text string }

func (r refusal) Error() string { return r.text }

// session is a websocket of somebody who waits for each answer.
type session struct {
	socket *relayclient.Socket
	stop   func() bool
}

// open connects from an address. The context bounds the whole session.
func (t *Target) open(ctx context.Context, address string) (*session, error) {
	socket, err := t.dial(ctx, address)
	if err != nil {
		return nil, err
	}
	return &session{socket, context.AfterFunc(ctx, func() { _ = socket.Close() })}, nil
}

func (s *session) close() {
	s.stop()
	_ = s.socket.Goodbye()
}

// await reads until an answer with a verb arrives.
func (s *session) await(verbs ...wire.AnswerVerb) (wire.Answer, error) {
	for {
		text, err := s.socket.Read()
		if err != nil {
			return wire.Answer{}, fmt.Errorf("read an answer: %w", err)
		}
		a, err := wire.ParseAnswer(text)
		if err != nil {
			return wire.Answer{}, err
		}
		for _, v := range verbs {
			if a.Verb == v {
				return a, nil
			}
		}
		if a.Verb == wire.AnswerClosed {
			return a, refusal{"CLOSED: " + a.Text}
		}
	}
}

// auth proves a key (NIP-42). The server sends its challenge first.
func (s *session) auth(t *Target, p *person) error {
	a, err := s.await(wire.AnswerAuth)
	if err != nil {
		return err
	}
	e := p.sign(22242, 0, "", host.Tag{"relay", "ws://" + t.Listen}, host.Tag{"challenge", a.Text})
	return s.submit(append(append([]byte(`["AUTH",`), e.JSON...), ']'))
}

func (s *session) publish(e *host.Event) error { return s.submit(eventMessage(e)) }

func (s *session) submit(text []byte) error {
	if err := s.socket.Write(text); err != nil {
		return err
	}
	a, err := s.await(wire.AnswerOK)
	if err == nil && !a.OK {
		err = refusal{a.Text}
	}
	return err
}

// req subscribes with a filter, reads to EOSE, and unsubscribes.
func (s *session) req(filter string) error {
	if err := s.socket.Write([]byte(`["REQ","q",` + filter + `]`)); err != nil {
		return err
	}
	if _, err := s.await(wire.AnswerEOSE); err != nil {
		return err
	}
	return s.socket.Write([]byte(`["CLOSE","q"]`))
}

// emptySet is a first message of negentropy: this side has nothing, and asks for all (NIP-77).
const emptySet = "6100000200"

// compare opens a negentropy session with a filter, reads the first answer, and closes it.
func (s *session) compare(filter string) error {
	if err := s.socket.Write([]byte(`["NEG-OPEN","n",` + filter + `,"` + emptySet + `"]`)); err != nil {
		return err
	}
	for {
		text, err := s.socket.Read()
		if err != nil {
			return fmt.Errorf("read an answer: %w", err)
		}
		switch verb, id, body, _ := wire.NegAnswer(text); {
		case id != "n":
		case verb == "NEG-ERR":
			return refusal{"NEG-ERR: " + body}
		case verb == "NEG-MSG":
			return s.socket.Write([]byte(`["NEG-CLOSE","n"]`))
		}
	}
}

// found makes a repository of somebody on the target: it announces, says the state, and pushes
// a commit of a local repository.
func (t *Target) found(ctx context.Context, p *person, name, address, dir, commit string) error {
	s, err := t.open(ctx, address)
	if err != nil {
		return fmt.Errorf("found a repository: %w", err)
	}
	defer s.close()
	for _, e := range []*host.Event{p.announce(t, name, 7200), p.state(name, commit, 7200)} {
		if err := s.publish(e); err != nil {
			return fmt.Errorf("found a repository: publish kind %d: %w", e.Kind, err)
		}
	}
	return push(ctx, dir, t.url(p.repo(name).Path()), address, commit)
}

// flood sends messages over one connection as fast as the server takes them, and counts its
// answers. It connects again when the server ends the connection, at most ten times a second.
func (t *Target) flood(ctx context.Context, address string, messages [][]byte) (accepted, refused int64, reason string) {
	var ok, no atomic.Int64
	var why atomic.Value
	next := 0
	for ctx.Err() == nil && next < len(messages) {
		s, err := t.open(ctx, address)
		if err != nil {
			pause(ctx, 100*time.Millisecond)
			continue
		}
		answered := make(chan struct{})
		remaining := int64(len(messages) - next)
		go func() {
			defer close(answered)
			for range remaining {
				a, err := s.await(wire.AnswerOK)
				switch {
				case err != nil:
					return
				case a.OK:
					ok.Add(1)
				default:
					no.Add(1)
					why.CompareAndSwap(nil, a.Text)
				}
			}
		}()
		for ; next < len(messages) && err == nil; next++ {
			err = s.socket.Write(messages[next])
		}
		if err != nil {
			_ = s.socket.Close()
			pause(ctx, 100*time.Millisecond)
		}
		<-answered
		s.close()
	}
	reason, _ = why.Load().(string)
	return ok.Load(), no.Load(), reason
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func isRefusal(err error) bool { return errors.As(err, new(refusal)) }

func hexOf(b []byte) string { return hex.EncodeToString(b) }
