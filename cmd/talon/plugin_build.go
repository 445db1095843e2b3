package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"talon/cmd/internal/author"
)

func pluginBuildCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "build [FOLDER]",
		Short: "Build the module of a folder, and check it as a relay would",
		Long: `Build the module of a folder to NAME.wasm in it, where manifest.json says the name. A module that a relay would refuse
is an error; talon plugin test asks it something too.`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "write the module to this `file`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		file, err := author.Build(cmd.Context(), folderOf(args), out, cmd.ErrOrStderr())
		if err != nil {
			return quoted(err)
		}
		source, err := author.Find(cmd.Context(), file, "", cmd.ErrOrStderr())
		if err != nil {
			return quoted(err)
		}
		in, err := source.Inspect(cmd.Context())
		if err == nil && in.Problem != "" {
			err = fmt.Errorf("%s is built, but a relay refuses it: %s", file, in.Problem)
		}
		if err != nil {
			return quoted(err)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, sha256 %s\n", plain(file), bytesText(int64(in.Size)), in.SHA256)
		return err
	}
	return cmd
}

func folderOf(args []string) string {
	if len(args) == 0 {
		return "."
	}
	return args[0]
}
