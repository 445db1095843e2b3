package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"talon/cmd/internal/author"
)

func pluginCommand() *cobra.Command {
	cmd := onlyHelps(&cobra.Command{
		Use:   "plugin",
		Short: "See and change the plugins of a running relay, and write your own",
		Long: `See and change the plugins of a running relay, and write your own.

The server is found by its admin socket, which stands in its data folder unless --admin-socket says otherwise. Only the user
that the server runs as, and root, can use it. What these commands change is written into the folder of plugins, so that it
also counts after a restart.`,
	})
	group(cmd, "operate", "Plugins of a running relay:", pluginListCommand(), pluginShowCommand(), pluginDisagreementsCommand(),
		pluginWhyCommand(), pluginSwapCommand(), pluginRollbackCommand(), pluginModeCommand(), pluginSetCommand(), pluginRecordCommand())
	group(cmd, "author", "Your own, without a relay:", pluginNewCommand(), pluginExtractCommand(), pluginSDKCommand(), pluginBuildCommand(), pluginInspectCommand(), pluginTestCommand(),
		pluginRunCommand(), pluginReplayCommand(), pluginBenchCommand(), pluginDiffCommand(), pluginExecCommand(), pluginSignCommand(), pluginVerifyCommand())
	return cmd
}

func pluginNewCommand() *cobra.Command {
	var world, lang string
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Make a folder with a module that builds and passes its tests",
		Long: `Make the folder NAME with the smallest useful module. It has a copy of the SDK, and it builds and is tested without a network.
AssemblyScript needs a network once, for npm install. If talon was installed from a release, go.mod of a module in Go requires
the SDK by its version, and go mod download fetches it once. Strategies and throttles are written in Go or Rust.
The last part of NAME is the name of the module.`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&world, "world", "policy", "the `world` of the module: policy, strategy or throttle")
	cmd.Flags().StringVar(&lang, "lang", "go", "the `language`: "+strings.Join(author.Languages(), ", "))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := author.Create(args[0], world, lang); err != nil {
			return err
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is there; next: %s\n", plain(args[0]), plain(author.Next(args[0], lang)))
		return err
	}
	return cmd
}

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

func pluginSDKCommand() *cobra.Command {
	return onlyHelps(&cobra.Command{
		Use:   "sdk",
		Short: "The SDK in the folder of a module",
	}, pluginSDKUpdateCommand())
}

func pluginSDKUpdateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "update [FOLDER]",
		Short: "Put the SDK of this version into a folder that talon plugin new made",
		Long: `Replace ./talon/sdk, the copy of the SDK in a folder that talon plugin new made, by the SDK of this version.
Your own files stay as they are. The default of FOLDER is the current folder.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			u, err := author.Update(folderOf(args))
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

func pluginInspectCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inspect [MODULE [MODULE]]",
		Short: "Show the capabilities, budgets and settings of a module; of two, the differences",
		Long: `Show what a module is for, what it may do, its budgets and its settings. With two modules, show what is not the same in them.
MODULE is a .wasm file, or a folder, which is built first; without it, the folder in which you are.`,
		Args: cobra.MaximumNArgs(2),
	}
	jsonFlag(cmd, "write it as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			args = []string{"."}
		}
		var list []*author.Inspection
		for _, path := range args {
			source, err := author.Find(cmd.Context(), path, "", cmd.ErrOrStderr())
			if err != nil {
				return quoted(err)
			}
			in, err := source.Inspect(cmd.Context())
			if err != nil {
				return quoted(err)
			}
			list = append(list, in)
		}
		if len(list) == 1 {
			return printFound(cmd, list[0], func(w io.Writer) error { return writeInspection(w, list[0]) })
		}
		return printFound(cmd, list, func(w io.Writer) error { return writeChanges(w, args, list) })
	}
	return cmd
}

func writeInspection(w io.Writer, in *author.Inspection) error {
	t := newTable(w)
	for _, row := range in.Rows(bytesText) {
		t.row(row.Label, row.Value)
	}
	return t.w.Flush()
}

func writeChanges(w io.Writer, files []string, list []*author.Inspection) error {
	changes := author.Changes(list[0].Rows(bytesText), list[1].Rows(bytesText))
	if len(changes) == 0 {
		_, err := fmt.Fprintln(w, "they are the same")
		return err
	}
	t := newTable(w)
	t.row("", files[0], files[1])
	for _, c := range changes {
		t.row(c.Label, orDash(c.Before), orDash(c.After))
	}
	return t.w.Flush()
}
