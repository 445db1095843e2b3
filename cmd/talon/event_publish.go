package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"talon/host"
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
		return signAndSend(cmd, &who, &how, e, addresses)
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

// signAndSend signs an event and publishes it.
func signAndSend(cmd *cobra.Command, who *signing, how *sending, e *host.Event, addresses []string) error {
	key, err := who.sign(e)
	if err != nil {
		return err
	}
	p := newPublisher(cmd, how, addresses, &key)
	return errors.Join(p.publish(cmd.Context(), e), p.close())
}

// publishLines publishes the events of standard input. A key is only needed where
// a relay asks for one.
func publishLines(cmd *cobra.Command, who *signing, how *sending, addresses []string) error {
	var key *secretKey
	if keyFile(who.keyFile) != "" {
		k, err := loadKey(who.keyFile)
		if err != nil {
			return err
		}
		key = &k
	}
	p := newPublisher(cmd, how, addresses, key)
	err := eachSigned(cmd.Context(), cmd.InOrStdin(), func(e *host.Event) error { return p.publish(cmd.Context(), e) })
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
