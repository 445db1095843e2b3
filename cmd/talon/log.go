package main

import (
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"talon/host/config"
)

// load reads the configuration and opens the log on the command's stderr.
func load(cmd *cobra.Command, loader *config.Loader) (*config.Config, *slog.Logger, error) {
	cfg, err := loader.Load(os.LookupEnv)
	if err != nil {
		return nil, nil, err
	}
	cfg.Compiler = compileWith
	return cfg, logger(cmd.ErrOrStderr(), cfg), nil
}

func logger(w io.Writer, cfg *config.Config) *slog.Logger {
	var level slog.Level
	// The configuration has checked the name.
	_ = level.UnmarshalText([]byte(cfg.LogLevel))
	options := &slog.HandlerOptions{Level: level}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
