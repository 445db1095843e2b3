package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"talon/host"
	"talon/host/relayclient"
	"talon/host/schnorr"
	"talon/host/wire"
)

func eventPublishCommand() *cobra.Command {
	var who signing
	var what composing
	var how sending
	var stdin bool
	cmd := &cobra.Command{
		Use:   "publish RELAY...",
		Short: "Sign an event and send it to relays",
		Long: `Sign an event and send it to relays, or with --stdin events that are signed already.

Each answer is a line: accepted, refused (with the relay's reason) or failed, the event's id, and the relay. The exit status is 1
unless all were accepted. When a relay asks who it is (auth-required), the same key proves itself.

` + composeHelp,
		Example: `  talon event publish --key alice.key --content 'hello' ws://localhost:7777
  talon event sign --key alice.key --content 'hello' > hello.jsonl
  talon event publish --stdin ws://localhost:7777 wss://relay.example.com < hello.jsonl`,
		Args: relayArgs,
	}
	who.flags(cmd)
	what.flags(cmd)
	how.flags(cmd)
	cmd.Flags().BoolVar(&stdin, "stdin", false, "send the signed events of standard input, one a line (JSONL), instead of signing one")
	for _, name := range composeOptions {
		cmd.MarkFlagsMutuallyExclusive("stdin", name)
	}
	cmd.RunE = func(cmd *cobra.Command, addresses []string) error {
		if err := how.check(addresses); err != nil {
			return err
		}
		if stdin {
			return publishLines(cmd, &who, &how, addresses)
		}
		e, err := what.compose()
		if err != nil {
			return err
		}
		key, err := who.open()
		if err != nil {
			return err
		}
		defer key.close()
		if err := who.sign(key, e); err != nil {
			return err
		}
		p := newPublisher(cmd, &how, addresses, key)
		return errors.Join(p.publish(cmd.Context(), e), p.close())
	}
	return cmd
}

// relayArgs wants at least one relay.
func relayArgs(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("no relay was given: name one or more, such as ws://localhost:7777")
	}
	return nil
}

// publishLines publishes the events of standard input. A key is only needed where
// a relay asks for one.
func publishLines(cmd *cobra.Command, who *signing, how *sending, addresses []string) error {
	key, err := who.openIfNamed()
	if err != nil {
		return err
	}
	if key != nil {
		defer key.close()
	}
	p := newPublisher(cmd, how, addresses, key)
	err = eachSigned(cmd.Context(), cmd.InOrStdin(), func(e *host.Event) error { return p.publish(cmd.Context(), e) })
	if err == nil && p.asked == 0 {
		err = errors.New("standard input holds no event")
	}
	return errors.Join(err, p.close())
}

// eachSigned calls yield with each event of JSONL. An event that no relay would
// take ends it: what comes after may depend on it.
func eachSigned(ctx context.Context, r io.Reader, yield func(*host.Event) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), inputBytes)
	for n := 1; lines.Scan(); n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		e, err := wire.ParseEvent(line)
		if err == nil {
			err = schnorr.Verify(e)
		}
		if err != nil {
			return fmt.Errorf("line %d of standard input is no signed event: %w", n, err)
		}
		if err := yield(e); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	return nil
}

// maxRelay bounds the relays of one command.
const maxRelay = 100

// sending are the options of every command that talks to relays.
type sending struct {
	timeout time.Duration
}

func (s *sending) flags(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&s.timeout, "timeout", 10*time.Second, "how long to wait for a relay's answer")
}

func (s *sending) check(addresses []string) error {
	if s.timeout <= 0 {
		return errors.New("the value of option timeout must be more than nothing")
	}
	if len(addresses) > maxRelay {
		return fmt.Errorf("at most %d relays at once, not %d", maxRelay, len(addresses))
	}
	for _, a := range addresses {
		if err := relayclient.CheckURL(a); err != nil {
			return fmt.Errorf("the relay %.200q is wrong: %w", a, err)
		}
	}
	return nil
}

// target is a relay that is asked, or sent events. It connects when it first has to.
type target struct {
	address string
	timeout time.Duration
	timer   *time.Timer // of the call under way
	opts    relayclient.Options
	conn    *relayclient.Conn
	err     error // why there is no connection any more
}

// relayAnswer is what became of an event at a relay.
type relayAnswer struct {
	relayclient.Result
	err error // it did not answer
}

// newTargets returns the relays that are named, each once. A key, if there is one, answers
// their challenges.
func newTargets(cmd *cobra.Command, s *sending, addresses []string, key signer) (list []*target) {
	named := map[string]bool{}
	for _, a := range addresses {
		if !named[a] {
			named[a] = true
			list = append(list, newTarget(cmd, s, a, key))
		}
	}
	return list
}

// newTarget returns a relay. The time that a signer takes to answer the relay's challenge does not
// count for the relay.
func newTarget(cmd *cobra.Command, s *sending, address string, key signer) *target {
	t := &target{address: address, timeout: s.timeout, opts: clientOptions(cmd, address, key)}
	if prove := t.opts.Prove; prove != nil {
		t.opts.Prove = func(relay, challenge string) (*host.Event, error) {
			if t.timer != nil && t.timer.Stop() {
				defer t.timer.Reset(t.timeout)
			}
			return prove(relay, challenge)
		}
	}
	return t
}

// errNoAnswer ends a call whose time is over.
var errNoAnswer = errors.New("the relay does not answer")

// ask makes one call to the relay, within the timeout.
func (t *target) ask(ctx context.Context, call func(ctx context.Context, c *relayclient.Conn) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.timer = time.AfterFunc(t.timeout, func() { cancel(errNoAnswer) })
	defer func() {
		t.timer.Stop()
		t.timer = nil
	}()
	err := t.connect(ctx)
	if err == nil {
		err = call(ctx, t.conn)
	}
	if err != nil && context.Cause(ctx) == errNoAnswer {
		err = context.DeadlineExceeded
	}
	return t.why(err)
}

// follow makes one call that lasts until the context ends. Only the connection must come within
// the timeout.
func (t *target) follow(ctx context.Context, call func(ctx context.Context, c *relayclient.Conn) error) error {
	connecting, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	if err := t.connect(connecting); err != nil {
		return t.why(err)
	}
	return call(ctx, t.conn)
}

func (t *target) connect(ctx context.Context) error {
	if t.conn != nil {
		return nil
	}
	c, err := relayclient.Dial(ctx, t.address, t.opts)
	if err == nil {
		t.conn = c
	}
	return err
}

// publish sends an event and waits for the answer.
func (t *target) publish(ctx context.Context, e *host.Event) (a relayAnswer) {
	if t.err == nil {
		t.err = t.ask(ctx, func(ctx context.Context, c *relayclient.Conn) (err error) {
			a.Result, err = c.Publish(ctx, e)
			return err
		})
	}
	a.err = t.err
	return a
}

// why says an end by the clock in words.
func (t *target) why(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %v", t.timeout)
	}
	return err
}

func (t *target) close() {
	if t.conn != nil {
		_ = t.conn.Close()
	}
}

// publisher sends events to relays and writes the answers.
type publisher struct {
	targets []*target
	out     io.Writer
	asked   int
	failed  int
}

func newPublisher(cmd *cobra.Command, s *sending, addresses []string, key signer) *publisher {
	return &publisher{targets: newTargets(cmd, s, addresses, key), out: cmd.OutOrStdout()}
}

// maxNotice bounds how many notices of a relay are shown.
const maxNotice = 10

func clientOptions(cmd *cobra.Command, address string, key signer) relayclient.Options {
	left := maxNotice
	opts := relayclient.Options{Notice: func(text string) {
		if left--; left >= 0 {
			// In one piece: relays answer side by side.
			_, _ = io.WriteString(cmd.ErrOrStderr(), fmt.Sprintf("%s says: %s\n", address, shown(text)))
		}
	}}
	if key != nil {
		opts.Prove = prover(key)
	}
	return opts
}

// publish sends an event to all relays concurrently and writes a line for each.
func (p *publisher) publish(ctx context.Context, e *host.Event) error {
	return errors.Join(p.write(e, p.send(ctx, e)), ctx.Err())
}

// send sends an event to all relays concurrently and returns the answer of each.
func (p *publisher) send(ctx context.Context, e *host.Event) []relayAnswer {
	answers := make([]relayAnswer, len(p.targets))
	var flying sync.WaitGroup
	for i, t := range p.targets {
		flying.Go(func() { answers[i] = t.publish(ctx, e) })
	}
	flying.Wait()
	return answers
}

// write writes a line for each answer.
func (p *publisher) write(e *host.Event, answers []relayAnswer) error {
	for i, a := range answers {
		p.asked++
		verb, reason := "accepted", a.Reason
		switch {
		case a.err != nil:
			verb, reason = "failed", a.err.Error()
		case !a.OK:
			verb = "refused"
		}
		if verb != "accepted" {
			p.failed++
		}
		line := fmt.Sprintf("%-8s %s %s", verb, e.ID, p.targets[i].address)
		if reason != "" {
			line += " " + shown(reason)
		}
		if _, err := fmt.Fprintln(p.out, line); err != nil {
			return err
		}
	}
	return nil
}

// close ends the connections and reports whether all was accepted.
func (p *publisher) close() error {
	var flying sync.WaitGroup
	for _, t := range p.targets {
		flying.Go(t.close)
	}
	flying.Wait()
	if p.failed > 0 {
		return fmt.Errorf("%d of %d answers are no acceptance", p.failed, p.asked)
	}
	return nil
}
