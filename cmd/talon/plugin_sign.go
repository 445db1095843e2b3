package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"talon/cmd/internal/author"
	"talon/host"
	"talon/host/plugin"
	"talon/sdk/nip19"
)

func pluginSignCommand() *cobra.Command {
	var who signing
	var address, out string
	cmd := &cobra.Command{
		Use:   "sign MODULE.wasm | NAME.toml",
		Short: "Sign a module (its hash and capabilities) or a side-car",
		Long: `Sign a module with your key: a nostr event (kind 1063, NIP-94) that names the hash of the file and the capabilities that it
asks for. It is written to MODULE.wasm` + plugin.SignatureSuffix + `; talon event publish sends it to relays.
A side-car is signed by its hash alone: a relay with --plugin-signers asks for that where the side-car of a required policy changes.`,
		Example: `  talon plugin sign words.wasm --key alice.key --url https://example.com/words.wasm`,
		Args:    cobra.ExactArgs(1),
	}
	who.flags(cmd)
	cmd.Flags().StringVar(&address, "url", "", "where the module can be had: a `URL`")
	cmd.Flags().StringVarP(&out, "out", "o", "", "write it to this `file`, or to standard output: -")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if u, err := url.Parse(address); address != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http") {
			return fmt.Errorf("url %.100q: want one that begins with https://", address)
		}
		file, e, err := claimOf(cmd, args[0], address)
		if err != nil {
			return quoted(err)
		}
		key, err := who.open()
		if err != nil {
			return err
		}
		defer key.close()
		if err := who.sign(key, e); err != nil {
			return err
		}
		if out == "-" {
			return printEvent(cmd, e)
		}
		if out == "" {
			out = file + plugin.SignatureSuffix
		}
		if err := os.WriteFile(out, append(e.JSON, '\n'), 0o644); err != nil {
			return fmt.Errorf("write the signature: %w", err)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: sha256 %s, by %s\n", plain(out), e.Tags[0][1], nip19.EncodeNpub(e.PubKey))
		return err
	}
	return cmd
}

// claimOf returns the event to sign for a module, or for a side-car, and its file.
func claimOf(cmd *cobra.Command, path, address string) (file string, e *host.Event, err error) {
	if filepath.Ext(path) == ".toml" {
		e, err = author.ClaimSidecar(path)
		return path, e, err
	}
	source, err := author.Find(cmd.Context(), path, "", cmd.ErrOrStderr())
	if err != nil {
		return "", nil, err
	}
	return source.File, source.Claim(address), nil
}

func pluginVerifyCommand() *cobra.Command {
	var file, by string
	cmd := &cobra.Command{
		Use:   "verify MODULE.wasm",
		Short: "See who signed a module, and whether it is still the same",
		Long: `Check that a module is the one that its signature names, byte for byte, and asks for no other capabilities; show who signed it.
Only you know who should have signed it: name that key with --by.`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&file, "signature", "", "the signature (default MODULE.wasm"+plugin.SignatureSuffix+"): a `file`")
	cmd.Flags().StringVar(&by, "by", "", "who must have signed it: an `npub`, or 64 hex digits")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		source, err := author.Find(cmd.Context(), args[0], "", cmd.ErrOrStderr())
		if err != nil {
			return quoted(err)
		}
		if file == "" {
			file = source.File + plugin.SignatureSuffix
		}
		f, err := os.Open(file)
		if err != nil {
			return fmt.Errorf("open the signature: %w", err)
		}
		defer f.Close()
		text, err := readInput(f)
		if err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		e, err := source.Verify(text)
		if err != nil {
			return quoted(err)
		}
		if by != "" {
			want, err := nip19.ParsePubKey(by)
			if err != nil {
				return fmt.Errorf("by %.80q: %w", by, err)
			}
			if want != e.PubKey {
				return fmt.Errorf("the module is signed by %s, not by %s: do not trust it for that", nip19.EncodeNpub(e.PubKey), nip19.EncodeNpub(want))
			}
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is signed by %s: %s %s, capabilities: %s\n", plain(source.File), nip19.EncodeNpub(e.PubKey),
			plain(source.Manifest.Name), plain(source.Manifest.Release), plain(orNone(source.Manifest.Capabilities)))
		return err
	}
	return cmd
}
