package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"talon/sdk/nip19"
)

func eventKeyCommand() *cobra.Command {
	var out, show string
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make a secret key file, and print its public key",
		Long: `Make a secret key in a file that only you can read, and print its public key (npub).

A file that exists is never overwritten. With --key it makes nothing, and prints the npub of that key file.`,
		Example: `  talon event key --out alice.key
  talon event key --key alice.key`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&out, "out", "", "make this `file` (environment: "+keyFileVar+"; default nostr.key)")
	cmd.Flags().StringVar(&show, "key", "", "print the npub of this key `file`")
	cmd.MarkFlagsMutuallyExclusive("out", "key")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if show != "" {
			key, err := loadKey(show)
			if err != nil {
				return err
			}
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

func printNpub(cmd *cobra.Command, key secretKey) error {
	pub, err := key.public()
	if err == nil {
		fmt.Fprintln(cmd.OutOrStdout(), nip19.EncodeNpub(pub))
	}
	return err
}
