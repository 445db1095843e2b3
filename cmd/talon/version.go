package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"talon/host/bundle"
	"talon/host/plugin/guest"
)

// release is set by the build.
var release = ""

// version returns the release of this build, or the commit that it was built from. The go
// tool knows the release if it fetched Talon as a module.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	if strings.HasPrefix(info.Main.Version, "v") {
		return info.Main.Version
	}
	return "devel"
}

// modulesInside says what this program has inside, and whether the compiled code fits this machine.
func modulesInside(ctx context.Context) (string, error) {
	own := bundle.Own()
	if own == nil {
		return "no modules inside: talon serve needs --plugins", nil
	}
	text := fmt.Sprintf("%d modules inside", len(own.Modules()))
	for _, m := range own.Modules() {
		if !m.Default {
			continue
		}
		wasm, err := own.Wasm(m.Name)
		if err != nil {
			return "", err
		}
		fits, err := guest.Fits(ctx, m.Name, wasm, own)
		if err != nil {
			return "", err
		}
		if fits {
			return text + "; their compiled code fits this machine", nil
		}
		return text + "; their compiled code is for other processors: the first start compiles them", nil
	}
	return text, nil
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which version this is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := cmd.OutOrStdout()
			fmt.Fprintf(w, "talon %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			about, err := modulesInside(cmd.Context())
			if err == nil {
				_, err = fmt.Fprintln(w, about)
			}
			return err
		},
	}
}
