package attack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// server is a talon process with a data folder of its own.
type server struct {
	cmd    *exec.Cmd
	listen string
	data   string
	log    string
	ended  chan struct{} // closed when the process has ended
	how    error         // its exit status, after ended
}

// startServer starts the program, and waits until it serves.
func startServer(ctx context.Context, program, dir string, flags []string) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{listen: l.Addr().String(), data: filepath.Join(dir, "data"), log: filepath.Join(dir, "server.log"), ended: make(chan struct{})}
	_ = l.Close()
	log, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	args := append([]string{"serve", "--listen", s.listen, "--data", s.data, "--trust-proxy", "127.0.0.0/8", "--auth-challenge", "connect"}, flags...)
	s.cmd = exec.Command(program, args...)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = dir, log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	go func() {
		s.how = s.cmd.Wait()
		close(s.ended)
	}()
	for {
		if status, _, err := get(ctx, http.DefaultClient, "http://"+s.listen+"/healthz", maintainerHome); err == nil && status == http.StatusOK {
			return s, nil
		}
		select {
		case <-s.ended:
			return nil, fmt.Errorf("start the server: it ended: %w\n%s", s.how, s.lastLog())
		case <-ctx.Done():
			s.stop()
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// alive reports whether the process runs.
func (s *server) alive() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// stop ends the process.
func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(15 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
}

// lastLog returns the reason that an ended process logged: a panic, or the last line.
func (s *server) lastLog() string {
	text, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	if i := bytes.Index(text, []byte("panic: ")); i >= 0 {
		text = text[i:]
		return string(text[:min(len(text), 200)])
	}
	text = bytes.TrimSpace(text)
	return string(text[bytes.LastIndexByte(text, '\n')+1:])
}

// Usage is what the server uses of the machine.
type Usage struct {
	Disk     int64 `json:"disk_bytes"`
	Files    int   `json:"files"`
	Memory   int64 `json:"memory_bytes"` // resident
	Children int   `json:"children"`     // processes below the server
	Stopped  int   `json:"stopped"`      // of these, in state T
	Sockets  int   `json:"descriptors"`
}

func (s *server) usage() (u Usage) {
	_ = filepath.WalkDir(s.data, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // a file that ended meanwhile
		}
		if info, err := d.Info(); err == nil {
			u.Files++
			if stat, ok := info.Sys().(*syscall.Stat_t); ok {
				u.Disk += stat.Blocks * 512
			}
		}
		return nil
	})
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.cmd.Process.Pid)); err == nil {
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			pages, _ := strconv.ParseInt(fields[1], 10, 64)
			u.Memory = pages * int64(os.Getpagesize())
		}
	}
	if list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid)); err == nil {
		u.Sockets = len(list)
	}
	u.Children, u.Stopped = children(s.cmd.Process.Pid)
	return u
}

// children counts the processes below a process, and those that are stopped.
func children(root int) (all, stopped int) {
	type process struct {
		parent int
		state  string
	}
	processes := map[int]process{}
	list, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range list {
		text, err := os.ReadFile(file)
		end := bytes.LastIndexByte(text, ')')
		if errors.Is(err, fs.ErrNotExist) || end < 0 {
			continue
		}
		fields := strings.Fields(string(text[end+1:]))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if len(fields) > 1 {
			parent, _ := strconv.Atoi(fields[1])
			processes[pid] = process{parent, fields[0]}
		}
	}
	for pid, p := range processes {
		for at, depth := pid, 0; depth < 10 && at > 1; depth++ {
			if at = processes[at].parent; at == root {
				all++
				if p.state == "T" {
					stopped++
				}
				break
			}
		}
	}
	return all, stopped
}
