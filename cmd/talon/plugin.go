package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"talon/host/admin"
	"talon/host/config"
)

func pluginCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugin",
		Short: "See and change the plugins of a running relay, and write your own",
		Long: `See and change the plugins of a running relay, and write your own.

The server is found by its admin socket, which stands in its data folder unless --admin-socket says otherwise. Only the user
that the server runs as, and root, can use it. What these commands change is written into the folder of plugins, so that it
also counts after a restart.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return errors.New("no command was given")
		},
	}
	group(cmd, "operate", "Plugins of a running relay:", pluginListCommand(), pluginShowCommand(), pluginDisagreementsCommand(),
		pluginWhyCommand(), pluginSwapCommand(), pluginRollbackCommand(), pluginModeCommand(), pluginRecordCommand())
	group(cmd, "author", "Your own, without a relay:", pluginNewCommand(), pluginSDKCommand(), pluginBuildCommand(), pluginInspectCommand(), pluginTestCommand(),
		pluginRunCommand(), pluginReplayCommand(), pluginBenchCommand(), pluginDiffCommand(), pluginExecCommand(), pluginSignCommand(), pluginVerifyCommand())
	return cmd
}

// group adds commands under a title.
func group(cmd *cobra.Command, id, title string, commands ...*cobra.Command) {
	cmd.AddGroup(&cobra.Group{ID: id, Title: title})
	for _, c := range commands {
		c.GroupID = id
	}
	cmd.AddCommand(commands...)
}

// operating makes a command that asks the running server.
func operating(cmd *cobra.Command, do func(cmd *cobra.Command, server *admin.Client, args []string) error) *cobra.Command {
	loader := config.Flags(cmd.Flags(), config.Operating)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := loader.Load(os.LookupEnv)
		if err != nil {
			return err
		}
		path := cfg.Admin()
		if path == "" {
			return errors.New("the admin socket is off (option admin-socket): start the server with one")
		}
		switch err = do(cmd, admin.Dial(path), args); {
		case errors.Is(err, admin.ErrNoServer):
			return fmt.Errorf("%w: start one with talon serve, or say with --data or --admin-socket where it is", err)
		case err != nil:
			// It may quote what a module says of itself.
			return errors.New(plain(err.Error()))
		}
		return nil
	}
	return cmd
}
