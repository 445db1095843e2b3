package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"talon/host"
	"talon/host/schnorr"
	"talon/sdk/nip19"
)

// public returns the public key.
func (k secretKey) public() (host.PubKey, error) { return schnorr.PublicKey(k) }

var errSecretInEvent = errors.New("the event holds the secret key that signs it: everybody would read it")

// sign completes an event: its author, id, signature and JSON. What it returns
// has passed the checks that a relay makes.
func (k secretKey) sign(e *host.Event) error {
	if err := checkText(e); err != nil {
		return err
	}
	if err := schnorr.Sign(k, e); err != nil {
		return fmt.Errorf("sign the event: %w", err)
	}
	if err := schnorr.Verify(e); err != nil {
		return fmt.Errorf("verify what was signed: %w", err)
	}
	lower := bytes.ToLower(e.JSON)
	if bytes.Contains(lower, []byte(nip19.EncodeNsec(k))) || bytes.Contains(lower, hex.AppendEncode(nil, k[:])) {
		return errSecretInEvent
	}
	return nil
}

// checkText refuses text that JSON cannot hold: a relay would see another.
func checkText(e *host.Event) error {
	if !utf8.ValidString(e.Content) {
		return errors.New("the content is not valid UTF-8")
	}
	for _, tag := range e.Tags {
		for _, s := range tag {
			if !utf8.ValidString(s) {
				return fmt.Errorf("the tag %q is not valid UTF-8", tag[0])
			}
		}
	}
	if e.CreatedAt < 0 {
		return errors.New("created_at must not be negative")
	}
	return nil
}

// prover answers the challenges of relays with the key (NIP-42).
func (k secretKey) prover(relay, challenge string) (*host.Event, error) {
	e := &host.Event{
		Kind:      host.KindAuth,
		CreatedAt: time.Now().Unix(),
		Tags:      host.Tags{{"relay", relay}, {"challenge", challenge}},
	}
	return e, k.sign(e)
}

// signing are the options of every command that signs.
type signing struct {
	keyFile   string
	createdAt int64
	cmd       *cobra.Command
}

func (s *signing) flags(cmd *cobra.Command) {
	s.cmd = cmd
	keyFlag(cmd, &s.keyFile)
	cmd.Flags().Int64Var(&s.createdAt, "created-at", 0, "the event's time, in unix `seconds` (default now)")
}

// sign completes an event with the key file and the time that were asked for.
func (s *signing) sign(e *host.Event) (secretKey, error) {
	key, err := loadKey(s.keyFile)
	if err != nil {
		return key, err
	}
	if e.CreatedAt == 0 || s.cmd.Flags().Changed("created-at") {
		e.CreatedAt = s.time()
	}
	return key, key.sign(e)
}

// time is the event's time that was asked for, or now.
func (s *signing) time() int64 {
	if s.cmd.Flags().Changed("created-at") {
		return s.createdAt
	}
	return time.Now().Unix()
}
