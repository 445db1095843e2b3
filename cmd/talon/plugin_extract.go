package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"talon/host/bundle"
)

func pluginExtractCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "extract NAME [FILE]",
		Short: "Write a bundled module to a file",
		Long: `Write the module NAME, which is inside this program, to FILE, which is NAME.wasm by default. So a bundled module can run under a second
name, with other settings.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			wasm, err := bundle.Own().Wasm(args[0])
			if err != nil {
				return err
			}
			file := args[0] + ".wasm"
			if len(args) > 1 {
				file = args[1]
			}
			if err := os.WriteFile(file, wasm, 0o644); err != nil {
				return fmt.Errorf("write the module: %w", err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", plain(file), bytesText(int64(len(wasm))))
			return err
		},
	}
}
