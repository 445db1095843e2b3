package main

import (
	"errors"
	"regexp"

	"github.com/spf13/cobra"
)

func eventCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "event",
		Short: "Sign events with a key file, publish and query them",
		Long: `Sign events with a key file, publish them to relays, and ask relays for events.

The secret key stands in a file that only you can read. It is never an argument, for others can see those, and no command but
key writes it anywhere. --key says which file; without it, the environment variable TALON_KEY_FILE does.`,
		Example: `  talon event key --out alice.key
  export TALON_KEY_FILE=alice.key
  talon event publish --content 'hello' ws://localhost:7777
  talon event query ws://localhost:7777 '{"kinds":[1]}'

  # a git repository, announced and pushed
  talon event announce --name demo --server ws://localhost:7777
  talon event push http://localhost:7777/npub1…/demo.git main`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return errors.New("no command was given")
		},
	}
	cmd.AddCommand(eventKeyCommand(), eventSignCommand(), eventPublishCommand(), eventQueryCommand(),
		eventAnnounceCommand(), eventPushCommand(), eventStateCommand())
	for _, c := range append(cmd.Commands(), cmd) {
		guardArgs(c)
	}
	return cmd
}

// secretText is what looks like a secret key as NIP-19 writes it.
var secretText = regexp.MustCompile(`(?i)(^|[^0-9a-z])(nsec|ncryptsec)1[0-9a-z]{20}`)

var errSecretArg = errors.New("an argument looks like a secret key: arguments stand in the history of the shell, and every user of the machine can see them. " +
	"Treat this key as known to others; talon event key makes a new one in a file")

// guardArgs refuses secret keys among the arguments, before anything quotes them.
func guardArgs(cmd *cobra.Command) {
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		for _, arg := range args {
			if secretText.MatchString(arg) {
				return errSecretArg
			}
		}
		return check(cmd, args)
	}
}
