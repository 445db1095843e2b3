package main

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"talon/host"
	"talon/host/schnorr"
	"talon/internal/smallfile"
	"talon/sdk/nip19"
)

// keyFileVar names the environment variable that says where the key file is.
const keyFileVar = "TALON_KEY_FILE"

// keyFileBytes bounds a key file: an nsec has 63 characters.
const keyFileBytes = 1024

// secretKey is a number from 1 to the order of the curve.
type secretKey [32]byte

// Format prints a placeholder with any verb, so that a key is never printed by mistake.
func (secretKey) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "(secret key)") }

var errNoKeyFile = errors.New("no key file: say with --key or " + keyFileVar + " which one signs, or with --signer who does; talon event key makes one")

// keyFlag adds the option --key.
func keyFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "key", "", "the key `file`: an nsec or 64 hex digits (environment: "+keyFileVar+")")
}

// keyFile returns the path of the key file, "" if there is none.
func keyFile(flag string) string {
	if flag == "" {
		return os.Getenv(keyFileVar)
	}
	return flag
}

// loadKey reads the key file that the option or the environment names.
func loadKey(flag string) (secretKey, error) {
	path := keyFile(flag)
	if path == "" {
		return secretKey{}, errNoKeyFile
	}
	// Before an error can quote it as a path.
	if _, err := nip19.ParseSecretKey(path); err == nil || secretText.MatchString(path) {
		return secretKey{}, fmt.Errorf("--key and %s take the path of a key file, never a key: treat this key as known to others", keyFileVar)
	}
	return readKeyFile(path)
}

// readKeyFile reads a key from a file that nobody else can read. No error quotes
// what the file holds.
func readKeyFile(path string) (secretKey, error) {
	text, err := smallfile.ReadSecret(path, keyFileBytes)
	switch {
	case errors.Is(err, smallfile.ErrShared):
		return secretKey{}, fmt.Errorf("read the key file: %w: take that away with chmod 600, and make a new key if somebody may have read it", err)
	case errors.Is(err, smallfile.ErrTooLarge):
		return secretKey{}, fmt.Errorf("read the key file: %w: it must hold an nsec or 64 hex digits and nothing else", err)
	case err != nil:
		return secretKey{}, fmt.Errorf("read the key file: %w", err)
	}
	line := strings.TrimSpace(string(text))
	if strings.HasPrefix(line, "npub1") {
		return secretKey{}, fmt.Errorf("the key file %s holds a public key (npub): it must hold the secret one (nsec)", path)
	}
	key, err := nip19.ParseSecretKey(line)
	if err != nil {
		return secretKey{}, fmt.Errorf("the key file %s is wrong: %w", path, err)
	}
	if !inRange(key) {
		return secretKey{}, fmt.Errorf("the key file %s is wrong: its number is no secp256k1 key", path)
	}
	return key, nil
}

// curveOrder is the order of secp256k1: a key is from 1 to one less.
var curveOrder = [32]byte{
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe,
	0xba, 0xae, 0xdc, 0xe6, 0xaf, 0x48, 0xa0, 0x3b, 0xbf, 0xd2, 0x5e, 0x8c, 0xd0, 0x36, 0x41, 0x41,
}

func inRange(key [32]byte) bool {
	return key != [32]byte{} && string(key[:]) < string(curveOrder[:])
}

// newKey makes a key by chance.
func newKey() secretKey {
	for {
		var key secretKey
		_, _ = rand.Read(key[:]) // it never fails: it ends the process instead
		if inRange(key) {
			return key
		}
	}
}

// writeKeyFile makes a file that only its owner can read. It never touches one
// that is there.
func writeKeyFile(path string, key secretKey) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists and is not overwritten: choose another name with --out, or see whose key it is with talon event key --key %[1]s", path)
	}
	if err != nil {
		return fmt.Errorf("make the key file: %w", err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = fmt.Errorf("write the key file: %w", err)
			_ = os.Remove(path) // half a key would be in the way
		}
	}()
	if _, err := f.WriteString(nip19.EncodeNsec(key) + "\n"); err != nil {
		return err
	}
	return f.Sync()
}

func eventKeyCommand() *cobra.Command {
	var out string
	var who signing
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make a secret key file, and print its public key",
		Long: `Make a secret key in a file that only you can read, and print its public key (npub).

A file that exists is never overwritten. With --key or --signer it makes nothing, and prints the npub of that key.`,
		Example: `  talon event key --out alice.key
  talon event key --key alice.key`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&out, "out", "", "make this `file` (environment: "+keyFileVar+"; default nostr.key)")
	cmd.Flags().StringVar(&who.keyFile, "key", "", "print the npub of this key `file`")
	signerFlag(cmd, &who.signer)
	cmd.MarkFlagsMutuallyExclusive("out", "key", "signer")
	who.cmd = cmd
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if who.keyFile != "" || who.signer != "" {
			key, err := who.open()
			if err != nil {
				return err
			}
			defer key.close()
			return printNpub(cmd, key)
		}
		if out = keyFile(out); out == "" {
			out = "nostr.key"
		}
		key := newKey()
		if err := writeKeyFile(out, key); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "the secret key is in %s: who has this file can sign as you, and nobody can make it again\n", out)
		warnKeyInRepository(cmd, out)
		return printNpub(cmd, key)
	}
	return cmd
}

func printNpub(cmd *cobra.Command, key signer) error {
	pub, err := key.public()
	if err == nil {
		fmt.Fprintln(cmd.OutOrStdout(), nip19.EncodeNpub(pub))
	}
	return err
}

// close does nothing: a key file is read whole.
func (secretKey) close() {}

// public returns the public key.
func (k secretKey) public() (host.PubKey, error) { return schnorr.PublicKey(k) }

var errSecretInEvent = errors.New("the event holds the secret key that signs it: everybody would read it")

// sign completes an event: its author, id, signature and JSON. The signed event has passed
// the checks that a relay makes.
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
