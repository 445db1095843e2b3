package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"talon/cmd/internal/author"
)

func pluginSDKCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sdk",
		Short: "The SDK in the folder of a module",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return errors.New("no command was given")
		},
	}
	cmd.AddCommand(pluginSDKUpdateCommand())
	return cmd
}

func pluginSDKUpdateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "update [FOLDER]",
		Short: "Put the SDK of this version into a folder that talon plugin new made",
		Long: `Put the SDK of this version into a folder that talon plugin new made, in the place of the one in talon/sdk.
What you wrote stays as it is. Without FOLDER, it is the folder in which you are.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			u, err := author.Update(dir)
			if err != nil {
				return quoted(err)
			}
			w := cmd.OutOrStdout()
			for _, file := range u.Files {
				fmt.Fprintln(w, plain(file))
			}
			if len(u.Files) == 0 {
				_, err = fmt.Fprintf(w, "the SDK is that of this version, %s\n", u.To)
				return err
			}
			from := u.From
			if from == "" {
				from = "a version that does not say which it is"
			}
			_, err = fmt.Fprintf(w, "the SDK is updated from %s to %s: %d files; next: talon plugin test\n", plain(from), u.To, len(u.Files))
			return err
		},
	}
}
