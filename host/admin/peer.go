package admin

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"syscall"
)

// guard lets in only connections of trusted users.
type guard struct {
	net.Listener
	trusted func(uid uint32) bool
	log     *slog.Logger
}

// ourselves reports whether a user is the one that this process runs as, or root.
func ourselves(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

func (g *guard) Accept() (net.Conn, error) {
	for {
		nc, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, err := peer(nc)
		if err == nil && g.trusted(uid) {
			return nc, nil
		}
		g.log.Warn("refuse a connection to the admin socket", "uid", uid, "err", err)
		_ = nc.Close() // it gets no answer
	}
}

// peer asks the kernel which user opened the other end.
func peer(nc net.Conn) (uint32, error) {
	unix, ok := nc.(*net.UnixConn)
	if !ok {
		return 0, errors.New("not a unix socket")
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *syscall.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err = errors.Join(err, failed); err != nil {
		return 0, err
	}
	return cred.Uid, nil
}
