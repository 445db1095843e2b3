package author

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"talon/host/plugin/guest"
)

// Process is a plugin of strfry: a program that reads one event a line as JSON, and
// answers with one line.
type Process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	cancel context.CancelFunc
}

// Ask writes a line and waits for the answer, which it returns as it is.
func (p *Process) Ask(line []byte) ([]byte, error) {
	stop := time.AfterFunc(processTime, p.cancel)
	defer stop.Stop()
	if _, err := p.in.Write(line); err != nil {
		return nil, fmt.Errorf("write to the plugin: %w: it has ended", err)
	}
	if !p.out.Scan() {
		if err := p.out.Err(); err != nil {
			return nil, fmt.Errorf("read from the plugin: %w", err)
		}
		return nil, fmt.Errorf("the plugin ended, or did not answer within %v: try it with one line of JSON by hand", processTime)
	}
	return p.out.Bytes(), nil
}

// Close ends the plugin.
func (p *Process) Close() {
	_ = p.in.Close()
	stop := time.AfterFunc(time.Second, p.cancel)
	defer stop.Stop()
	_ = p.cmd.Wait()
	p.cancel()
}

// cpu is the processor time that the plugin and this process have used.
func (p *Process) cpu() time.Duration { return ownCPU() + cpuOf(p.cmd.Process.Pid) }

// Bench times the plugin with questions about events, as [Source.Bench] times a
// module.
func (p *Process) Bench(ctx context.Context, questions []*Case, during time.Duration) (m Measured, err error) {
	lines := make([][]byte, len(questions))
	for i, q := range questions {
		lines[i] = q.strfry()
		answer, err := p.Ask(lines[i])
		if err != nil {
			return m, err
		}
		if err := checkAnswer(answer); err != nil {
			return m, fmt.Errorf("%s: %w", q.Where, err)
		}
	}
	err = m.time(ctx, len(lines), during, p.cpu, func(i int) error {
		_, err := p.Ask(lines[i])
		return err
	})
	return m, err
}

// processTime is how long a plugin may take for one answer.
const processTime = 10 * time.Second

// StartProcess starts a plugin as strfry does: a command with spaces is the shell's.
func StartProcess(ctx context.Context, command string, stderr io.Writer) (*Process, error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, command)
	if strings.ContainsAny(command, " \t") {
		cmd = exec.CommandContext(ctx, "/bin/sh", "-c", "exec "+command)
	}
	cmd.Stderr = stderr
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("start the plugin: %w: want a program that can be executed", err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	return &Process{cmd, in, lines, cancel}, nil
}

// checkAnswer reports what is wrong with a plugin's answer.
func checkAnswer(text []byte) error {
	var a sifted
	if err := json.Unmarshal(text, &a); err != nil || !slices.Contains([]string{sAccept, sReject, sShadow}, a.Action) {
		return fmt.Errorf("the plugin answered %.100q: want an id, and accept, reject or shadowReject as the action", text)
	}
	return nil
}

// strfry is the question as strfry asks it.
func (q *Case) strfry() []byte {
	s := strfrySource{Type: "new", ReceivedAt: q.Vector.Now, SourceType: "IP4", SourceInfo: string(q.Vector.Source.Address)}
	switch q.Vector.Source.Origin {
	case "import":
		s.SourceType = "Import"
	case "sync":
		s.SourceType, s.SourceInfo = "Sync", q.Vector.Source.Relay
	default:
		if strings.Contains(s.SourceInfo, ":") {
			s.SourceType = "IP6"
		}
	}
	line, _ := json.Marshal(struct {
		strfrySource
		Event json.RawMessage `json:"event"`
	}{s, guest.VectorEvent(q.Vector.Event).JSON})
	return append(line, '\n')
}

// Command returns the command line of what a module is compared with: exec:PATH.
func Command(against string) (string, error) {
	command, ok := strings.CutPrefix(against, "exec:")
	if !ok || strings.TrimSpace(command) == "" {
		return "", fmt.Errorf("against %.80q: want exec:PATH, a plugin of strfry", against)
	}
	command = strings.TrimSpace(command)
	if info, err := os.Stat(command); err == nil && info.IsDir() {
		return "", errors.New("against exec:" + command + ": this is a folder, want a program")
	}
	if strings.ContainsAny(command, " \t") {
		return command, nil // the shell finds it
	}
	if _, err := exec.LookPath(command); err != nil {
		return "", fmt.Errorf("against %w: want a program that can be executed", err)
	}
	return command, nil
}
