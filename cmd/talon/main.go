// Talon is a nostr relay whose every choice is a WebAssembly module.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"talon/cmd/internal/gitremote"
	"talon/host/config"
	"talon/host/daemon"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process immediately.
	context.AfterFunc(ctx, stop)
	// A file that may not grow is a write that fails, like one on a full disk, not
	// the end of the process.
	signal.Ignore(syscall.SIGXFSZ)
	if path, err := os.Executable(); err == nil {
		compileWith = []string{path, compileName}
	}
	if code := execute(ctx); code != 0 {
		os.Exit(code)
	}
}

// execute carries out the command of the process, and returns its exit code. An error goes to stderr.
func execute(ctx context.Context) (code int) {
	do := root().ExecuteContext
	if filepath.Base(os.Args[0]) == gitremote.Name {
		do = remoteHelps
	}
	err := do(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "talon: "+err.Error())
	if e, ok := errors.AsType[exit](err); ok {
		return e.code
	}
	return 1
}

// exit is an error with another exit code than 1.
type exit struct {
	code int
	error
}

func (e exit) Unwrap() error { return e.error }

// root is the command without a subcommand: it only helps.
func root() *cobra.Command {
	cmd := onlyHelps(&cobra.Command{
		Use:           "talon",
		Short:         "A nostr relay whose every choice is a WebAssembly module",
		SilenceUsage:  true,
		SilenceErrors: true,
	}, serveCommand(), importCommand(), exportCommand(), copyCommand(), migrateCommand(), backupCommand(), restoreCommand(), reloadCommand(), moderateCommand(), deleteCommand(), checkCommand(), usageCommand(), topCommand(), clusterCommand(), pluginCommand(), eventCommand(),
		gitCommand(), gitCredentialCommand(), devnetCommand(), huntCommand(), syncCommand(), labCommand(), versionCommand(), compileCommand())
	cmd.AddCommand(buildCommands()...)
	cmd.CompletionOptions.HiddenDefaultCmd = true
	wrapHelp(cmd)
	return cmd
}

// configured makes a command for which the configuration of a server holds.
func configured(cmd *cobra.Command, scope config.Scope, do func(cmd *cobra.Command, cfg *config.Config, log *slog.Logger, args []string) error) *cobra.Command {
	loader := config.Flags(cmd.Flags(), scope)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, log, err := load(cmd, loader)
		if err != nil {
			return err
		}
		return do(cmd, cfg, log, args)
	}
	return cmd
}

// load reads the configuration and opens the log on the command's stderr.
func load(cmd *cobra.Command, loader *config.Loader) (*config.Config, *slog.Logger, error) {
	cfg, err := loader.Load(os.LookupEnv)
	if err != nil {
		return nil, nil, err
	}
	cfg.Compiler = compileWith
	return cfg, logger(cmd.ErrOrStderr(), cfg, levelOf(cfg)), nil
}

// levelOf returns the level of the log. It may be changed later.
func levelOf(cfg *config.Config) *slog.LevelVar {
	var level slog.Level
	// The configuration has checked the name.
	_ = level.UnmarshalText([]byte(cfg.LogLevel))
	out := new(slog.LevelVar)
	out.Set(level)
	return out
}

func logger(w io.Writer, cfg *config.Config, level *slog.LevelVar) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// quietLogger returns a log for commands that do the work of a server for a moment. It leaves out the lines
// that say what the server loads, unless the level is debug.
func quietLogger(w io.Writer, cfg *config.Config) *slog.Logger {
	level := levelOf(cfg)
	if level.Level() == slog.LevelInfo {
		level.Set(slog.LevelWarn)
	}
	return logger(w, cfg, level)
}

// group adds commands under a title.
func group(cmd *cobra.Command, id, title string, commands ...*cobra.Command) {
	cmd.AddGroup(&cobra.Group{ID: id, Title: title})
	for _, c := range commands {
		c.GroupID = id
	}
	cmd.AddCommand(commands...)
}

func serveCommand() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the relay",
		Long: `Run the relay until it gets SIGINT or SIGTERM. With SIGHUP it reads its configuration again, as after talon reload.

Options are taken from defaults, then the configuration file, then the environment, then flags; later ones win.
The default modules are inside the program. In the folder --plugins, NAME.toml says how the module NAME runs, and each NAME.wasm is
a plugin, in the place of the bundled one of that name. Both may change while the relay runs.
With --policy rate,lists,grasp only these policies decide, in this order.
With talon plugin an operator sees and changes what runs.`,
		Args: cobra.NoArgs,
	}
	loader := config.Flags(cmd.Flags(), config.Always|config.Deciding|config.Serving)
	cmd.Flags().BoolVar(&check, "check-config", false, "check the configuration and exit")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := loader.Load(os.LookupEnv)
		if err != nil {
			return err
		}
		if check {
			return checkConfig(cmd, cfg)
		}
		cfg.Compiler = compileWith
		level := levelOf(cfg)
		d := daemon.New(cfg, version(), logger(cmd.ErrOrStderr(), cfg, level))
		d.Reloads(func() (*config.Config, error) { return loader.Reload(os.LookupEnv) }, level)
		ctx, stop := context.WithCancel(cmd.Context())
		defer stop()
		go reloadOnSignal(ctx, d)
		return d.Run(ctx)
	}
	return cmd
}

// checkConfig reports whether a server could start with a configuration, as far as options say.
func checkConfig(cmd *cobra.Command, cfg *config.Config) error {
	if _, err := cfg.Postgres(); err != nil {
		return err
	}
	if err := daemon.CheckPlugins(cfg); err != nil {
		return err
	}
	from := "defaults, environment and flags"
	if cfg.File != "" {
		from = cfg.File
	}
	fmt.Fprintf(cmd.OutOrStdout(), "the configuration is valid: %s\n", from)
	return nil
}

// reloadOnSignal reads the configuration again at each SIGHUP. Without a handler that signal ends
// the process.
func reloadOnSignal(ctx context.Context, d *daemon.Daemon) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			_, _ = d.Reload() // it logs what comes of it
		}
	}
}
