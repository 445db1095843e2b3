// Command launcher is the program "talon" in the tests of cmd/talon. It is small, so it starts in a
// millisecond. It does nothing itself: a talon that already runs carries out the command. The launcher
// hands over its arguments, environment, folder and standard streams, passes on signals, and exits with
// the code of the command. A launcher that is killed takes the command with it.
//
// The socket on which processes take commands is next to the launcher.
package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// command is what the launcher sends: the length in four bytes, then this as JSON. The standard streams
// go with the first byte.
type command struct {
	Args []string
	Env  []string
	Dir  string
}

func main() {
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "launcher: "+err.Error())
	}
	os.Exit(code)
}

func run() (code int, err error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	conn, err := connect()
	if err != nil {
		return 125, err
	}
	text, err := encode()
	if err != nil {
		return 125, err
	}
	sent, err := syscall.SendmsgN(conn, text, syscall.UnixRights(0, 1, 2), nil, 0)
	if err == nil {
		err = write(conn, text[sent:])
	}
	if err != nil {
		return 125, fmt.Errorf("send the command: %w", err)
	}
	go func() {
		for s := range signals {
			if n, ok := s.(syscall.Signal); ok {
				_ = write(conn, []byte{byte(n)}) // a command that has ended needs no signal
			}
		}
	}()
	var answer [4]byte
	for have := 0; have < len(answer); {
		n, err := syscall.Read(conn, answer[have:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return 2, nil // the command ended its process, which has said why
		}
		have += n
	}
	return int(binary.BigEndian.Uint32(answer[:])), nil
}

func connect() (fd int, err error) {
	program, err := os.Executable()
	if err != nil {
		return 0, err
	}
	fd, err = syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	for {
		err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: filepath.Join(filepath.Dir(program), "commands.sock")})
		if err != syscall.EINTR {
			return fd, err
		}
	}
}

// encode describes this process as a command.
func encode() ([]byte, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(command{Args: os.Args, Env: os.Environ(), Dir: dir})
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...), err
}

func write(fd int, text []byte) error {
	for len(text) > 0 {
		n, err := syscall.Write(fd, text)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}
