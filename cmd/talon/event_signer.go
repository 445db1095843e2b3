package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"talon/cmd/internal/remotesigner"
	"talon/host"
)

// signer signs events as one author. It must be closed.
type signer interface {
	// public returns the public key of the author.
	public() (host.PubKey, error)

	// sign completes an event: its author, id, signature and JSON. A completed event has
	// passed the checks that a relay makes.
	sign(e *host.Event) error

	close()
}

// prover answers the challenges of relays with the key of a signer (NIP-42).
func prover(key signer) func(relay, challenge string) (*host.Event, error) {
	return func(relay, challenge string) (*host.Event, error) {
		e := &host.Event{
			Kind:      host.KindAuth,
			CreatedAt: time.Now().Unix(),
			Tags:      host.Tags{{"relay", relay}, {"challenge", challenge}},
		}
		return e, key.sign(e)
	}
}

// signerVar names the environment variable with the URL of a signer. A URL holds a secret, and
// others can see the arguments of a command.
const signerVar = "TALON_SIGNER"

// signTime is how long a person may take to approve one request of a remote signer. Tests shorten
// it.
var signTime = 2 * time.Minute

// signerFlag adds the option --signer.
func signerFlag(cmd *cobra.Command, address *string) {
	cmd.Flags().StringVar(address, "signer", "", "the `url` of a signer that keeps the key (NIP-46), bunker://… (environment: "+signerVar+")")
}

// signing are the options of every command that signs.
type signing struct {
	keyFile   string
	signer    string
	createdAt int64
	cmd       *cobra.Command
}

// flags adds the options of a command that signs.
func (s *signing) flags(cmd *cobra.Command) {
	s.keyFlags(cmd)
	cmd.Flags().Int64Var(&s.createdAt, "created-at", 0, "the event's time, in unix `seconds` (default now)")
}

// keyFlags adds the options that say whose key it is.
func (s *signing) keyFlags(cmd *cobra.Command) {
	s.cmd = cmd
	keyFlag(cmd, &s.keyFile)
	signerFlag(cmd, &s.signer)
	cmd.MarkFlagsMutuallyExclusive("key", "signer")
}

// remote returns the URL of the signer that keeps the key, "" if a key file has it.
func (s *signing) remote() (string, error) {
	fromEnvironment := os.Getenv(signerVar)
	switch {
	case s.signer != "" || s.keyFile != "":
		return s.signer, nil
	case fromEnvironment != "" && os.Getenv(keyFileVar) != "":
		return "", errors.New(keyFileVar + " and " + signerVar + " are both set: say with --key or --signer which one signs")
	}
	return fromEnvironment, nil
}

// open returns the signer that the options or the environment name.
func (s *signing) open() (signer, error) {
	address, err := s.remote()
	if err != nil {
		return nil, err
	}
	if address == "" {
		key, err := loadKey(s.keyFile)
		if err != nil {
			return nil, err
		}
		return key, nil
	}
	config, err := os.UserConfigDir()
	if err != nil {
		return nil, fmt.Errorf("find the folder for the key by which the signer knows this client: %w", err)
	}
	remote, err := remotesigner.Open(s.cmd.Context(), address, remotesigner.Options{
		Folder: filepath.Join(config, "talon", "signers"), Limit: signTime,
		Say: func(text string) { fmt.Fprintln(s.cmd.ErrOrStderr(), shown(text)) },
	})
	if err != nil {
		return nil, plainError(err)
	}
	return remoteSigner{remote}, nil
}

// openIfNamed is open where no key is needed: nil if none is named.
func (s *signing) openIfNamed() (signer, error) {
	if address, err := s.remote(); err != nil || address == "" && keyFile(s.keyFile) == "" {
		return nil, err
	}
	return s.open()
}

// identity opens the signer, and warns if a key file is where others may get it.
func (s *signing) identity() (key signer, author host.PubKey, err error) {
	if key, err = s.open(); err != nil {
		return nil, author, err
	}
	if _, local := key.(secretKey); local {
		warnKeyInRepository(s.cmd, s.keyFile)
	}
	if author, err = key.public(); err != nil {
		key.close()
	}
	return key, author, err
}

// sign completes an event with the time that was asked for.
func (s *signing) sign(key signer, e *host.Event) error {
	if e.CreatedAt == 0 || s.cmd.Flags().Changed("created-at") {
		e.CreatedAt = s.time()
	}
	return key.sign(e)
}

// time is the event's time that was asked for, or now.
func (s *signing) time() int64 {
	if s.cmd.Flags().Changed("created-at") {
		return s.createdAt
	}
	return time.Now().Unix()
}

// remoteSigner is a signer that keeps the key elsewhere.
type remoteSigner struct{ *remotesigner.Signer }

func (r remoteSigner) public() (host.PubKey, error) { return r.PublicKey(), nil }

func (r remoteSigner) sign(e *host.Event) error {
	if err := checkText(e); err != nil {
		return err
	}
	if err := r.Sign(e); err != nil {
		return plainError(err)
	}
	return nil
}

func (r remoteSigner) close() { r.Close() }
