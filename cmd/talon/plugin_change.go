package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"talon/host/admin"
	"talon/host/plugin"
	"talon/host/plugin/sidecar"
)

func pluginSwapCommand() *cobra.Command {
	return operating(&cobra.Command{
		Use:   "swap NAME FILE",
		Short: "Put a module into the folder of plugins, if it passes every check",
		Long: `Put a module into the folder of plugins as NAME.wasm, if it passes every check; NAME.toml beside it stays as it is.
If FILE` + plugin.SignatureSuffix + ` is there, as talon plugin sign writes it, it goes with it where a signature is asked for.

If a check fails, nothing changes. No event is lost or answered twice: what is being decided ends with the old generation.`,
		Args: cobra.ExactArgs(2),
	}, func(cmd *cobra.Command, server *admin.Client, args []string) error {
		wasm, err := readModule(args[1])
		if err != nil {
			return err
		}
		signature, err := readSignature(args[1] + plugin.SignatureSuffix)
		if err != nil {
			return err
		}
		status, err := server.Swap(cmd.Context(), args[0], wasm, signature)
		return changed(cmd, &status, err)
	})
}

// readSignature reads the signature file of a module, nil if there is none.
func readSignature(name string) ([]byte, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the signature: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, admin.MaxSignature+1))
	if err != nil {
		return nil, fmt.Errorf("read the signature: %w", err)
	}
	return text, nil
}

// readModule reads a file that is not larger than a module may be.
func readModule(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open the module: %w", err)
	}
	defer f.Close()
	wasm, err := io.ReadAll(io.LimitReader(f, admin.MaxModule+1))
	if err != nil {
		return nil, fmt.Errorf("read the module: %w", err)
	}
	if len(wasm) > admin.MaxModule {
		return nil, fmt.Errorf("the module %s is too big: want at most %s", name, bytesText(admin.MaxModule))
	}
	return wasm, nil
}

func pluginRollbackCommand() *cobra.Command {
	var steps int
	cmd := &cobra.Command{
		Use:   "rollback NAME",
		Short: "Return to an earlier generation of a plugin",
		Long: `Return to an earlier generation of a plugin: its module and its side-car become what they were then.

One step back from a file that was refused is what still runs. talon plugin show lists the earlier generations that are kept.`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().IntVar(&steps, "steps", 1, "`generations` to go back")
	return operating(cmd, func(cmd *cobra.Command, server *admin.Client, args []string) error {
		status, err := server.Rollback(cmd.Context(), args[0], steps)
		return changed(cmd, &status, err)
	})
}

func pluginModeCommand() *cobra.Command {
	return operating(&cobra.Command{
		Use:   "mode NAME enforce|shadow|off",
		Short: "Make a plugin decide, only watch, or rest",
		Long: `Make a plugin decide (enforce), give opinions without effect (shadow), or not run at all (off).

The mode is written into NAME.toml.`,
		Args: cobra.ExactArgs(2),
	}, func(cmd *cobra.Command, server *admin.Client, args []string) error {
		var mode sidecar.Mode
		if err := mode.UnmarshalText([]byte(args[1])); err != nil {
			return err
		}
		status, err := server.SetMode(cmd.Context(), args[0], mode)
		return changed(cmd, &status, err)
	})
}

func pluginSetCommand() *cobra.Command {
	return operating(&cobra.Command{
		Use:   "set NAME KEY=VALUE...",
		Short: "Change settings of a plugin",
		Long: `Change settings of a plugin, in NAME.toml. All of them take effect at once, and only if the plugin passes every check then.

KEY is a setting of the module (in the table [config]), or a key of the side-car: mode, place, required, sha256, signers,
capabilities, on-failure, budgets.fuel and the like. config.KEY is a setting that has the name of such a key. VALUE is a value of TOML;
quotes around a text may be left out. KEY= without a value removes the key.`,
		Example: `  talon plugin set limits max_content_bytes=65536 max_tags=500
  talon plugin set lists 'deny_words=["casino"]'
  talon plugin set lists deny_words=`,
		Args: cobra.MinimumNArgs(2),
	}, func(cmd *cobra.Command, server *admin.Client, args []string) error {
		var list []sidecar.Assignment
		for _, text := range args[1:] {
			a, err := sidecar.ParseAssignment(text)
			if err != nil {
				return err
			}
			list = append(list, a)
		}
		status, err := server.Set(cmd.Context(), args[0], list)
		return changed(cmd, &status, err)
	})
}

// changed says what runs after a change.
func changed(cmd *cobra.Command, s *plugin.Status, err error) error {
	if err != nil {
		return err
	}
	text := plain(s.Name) + ": mode " + plain(string(s.Mode))
	if r := s.Running; r != nil {
		text += fmt.Sprintf(", generation %d, version %s", r.Generation, plain(r.Version))
		if r.SHA256 != "" {
			text += ", sha256 " + plain(r.SHA256)
		}
	}
	if s.LeftOut {
		text += "; it does not decide: " + leftOut
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}
