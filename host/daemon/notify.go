package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// A service manager that sets NOTIFY_SOCKET learns when the server serves, reads its
// configuration again, and stops (sd_notify(3)).

func notifyReady(log *slog.Logger)    { notify(log, daemon.SdNotifyReady) }
func notifyStopping(log *slog.Logger) { notify(log, daemon.SdNotifyStopping) }

func notifyReloading(log *slog.Logger) {
	state := daemon.SdNotifyReloading
	// systemd 253 and later want the time, to tell this reload from one before.
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) == nil {
		state += fmt.Sprintf("\nMONOTONIC_USEC=%d", now.Nano()/1000)
	}
	notify(log, state)
}

func notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("tell the service manager", "state", state, "err", err)
	}
}

// runWatchdog says that the process lives, twice in the time that the service manager allows
// (WatchdogSec), until ctx ends.
func runWatchdog(ctx context.Context, log *slog.Logger) error {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return fmt.Errorf("read the watchdog of the service manager: %w", err)
	}
	if limit == 0 {
		return nil
	}
	tick := time.NewTicker(limit / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			notify(log, daemon.SdNotifyWatchdog)
		}
	}
}
