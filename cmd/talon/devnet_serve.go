package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"talon/cmd/internal/devnet"
)

// childTalon is the Talon in the middle of a network, in a process of its own.
type childTalon struct {
	cmd   *exec.Cmd
	ended chan error // one value, when it has ended
	gone  chan struct{}
}

// startTalon starts a Talon on a new data folder. What it logs, from level warn on
// unless its own flags say otherwise, goes to log.
func (o *devnetRun) startTalon(ctx context.Context, n *devnet.Net, data string, log io.Writer) (*childTalon, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the program of Talon: %w", err)
	}
	args := slices.Concat([]string{"serve", "--log-level", "warn"}, o.talonArgs(n)[1:], []string{"--data", data}) // of a flag, the last one counts
	// It gets a signal of its own, and not the end of the context: it stops in order.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self, args...)
	cmd.Args[0] = "talon" // whatever the file is called
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start talon serve: %w", err)
	}
	c := &childTalon{cmd: cmd, ended: make(chan error, 1), gone: make(chan struct{})}
	go func() {
		c.ended <- cmd.Wait()
		close(c.gone)
	}()
	return c, nil
}

// stop ends it, in order if that does not take for ever.
func (c *childTalon) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.gone:
	case <-time.After(20 * time.Second):
		_ = c.cmd.Process.Kill()
		<-c.gone
	}
}
