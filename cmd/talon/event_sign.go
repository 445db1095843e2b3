package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"talon/host"
)

func eventSignCommand() *cobra.Command {
	var who signing
	var what composing
	cmd := &cobra.Command{
		Use:   "sign",
		Short: "Sign an event and print it as JSON",
		Long: `Sign an event and print it as one line of JSON.

` + composeHelp,
		Example: `  talon event sign --key alice.key --content 'hello'
  echo 'a longer text' | talon event sign --key alice.key --content -
  talon event sign --key alice.key --kind 1621 --content 'It crashes' \
      --tag 'a=30617:<hex key>:demo' --tag 'subject=A crash'
  talon event sign --key alice.key --json draft.json`,
		Args: cobra.NoArgs,
	}
	who.flags(cmd)
	what.flags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		e, err := what.compose()
		if err != nil {
			return err
		}
		if _, err := who.sign(e); err != nil {
			return err
		}
		return printEvent(cmd, e)
	}
	return cmd
}

func printEvent(cmd *cobra.Command, e *host.Event) error {
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", e.JSON)
	return err
}

// inputBytes bounds what is read to make one event.
const inputBytes = 16 << 20

// readInput reads all of r, the content or the template of one event.
func readInput(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, inputBytes+1))
	if err == nil && len(text) > inputBytes {
		err = errors.New("it is longer than 16 MiB")
	}
	return text, err
}
