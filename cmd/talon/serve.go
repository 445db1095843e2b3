package main

import (
	"github.com/spf13/cobra"

	"talon/host/config"
	"talon/host/daemon"
)

func serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the relay",
		Long: `Run the relay until it gets SIGINT or SIGTERM.

Options are taken from defaults, then the configuration file, then the environment, then flags; later ones win.
Every NAME.wasm in the folder --plugins is a plugin, and NAME.toml beside it says how it runs; both may change while the relay runs.
With --policy rate,lists,grasp only these policies decide, in this order.
With talon plugin an operator sees and changes what runs.`,
		Args: cobra.NoArgs,
	}
	loader := config.Flags(cmd.Flags(), config.Always|config.Deciding|config.Serving)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, log, err := load(cmd, loader)
		if err != nil {
			return err
		}
		return daemon.New(cfg, version(), log).Run(cmd.Context())
	}
	return cmd
}
