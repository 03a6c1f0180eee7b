// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/internal/must"
)

// A node is a process 1 with its own PID, mount, network, UTS and IPC namespaces, and
// all processes that process 1 starts. A socket in the node's folder takes the requests
// to start programs. When process 1 is killed, the kernel ends all processes of the
// node, as a power failure would.

const controlSocket = "control.sock"

// machineOptions is what a node's process 1 reads when it starts.
type machineOptions struct {
	Hostname string `json:"hostname"`
}

// nodeInit runs the node's process 1.
func nodeInit(dir string) error {
	var o machineOptions
	b := must.Get(os.ReadFile(filepath.Join(dir, "machine.json"))) // #nosec G304 -- ours
	must.OK(json.Unmarshal(b, &o))
	must.OK(syscall.Sethostname([]byte(o.Hostname)))
	must.OK(nodeMounts(dir))
	l := must.Get((&net.ListenConfig{}).Listen(context.Background(), "unix", filepath.Join(dir, controlSocket)))
	server := &http.Server{Handler: &control{reap: newReaper()}, ReadHeaderTimeout: time.Minute}
	return server.Serve(l)
}

// sysctls are settings that a kubelet requires and would set for the whole machine. In
// the node's mount namespace the files hold these values, so the kubelet writes nothing.
var sysctls = map[string]string{"vm/overcommit_memory": "1", "kernel/panic": "10", "kernel/panic_on_oops": "1"}

func nodeMounts(dir string) error {
	mounts := []mount{
		{"", "/", "", syscall.MS_PRIVATE | syscall.MS_REC},
		{"proc", "/proc", "proc", syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC},
	}
	for _, folder := range nodeFolders() {
		mounts = append(mounts, mount{"tmpfs", folder, "tmpfs", 0})
	}
	for name, value := range sysctls {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "."))
		must.OK(os.WriteFile(file, []byte(value+"\n"), 0o600))
		mounts = append(mounts, mount{file, "/proc/sys/" + name, "", syscall.MS_BIND})
	}
	// Containers must see the mounts of Pod volumes, also those that are mounted later.
	mounts = append(mounts, mount{"", "/", "", syscall.MS_SHARED | syscall.MS_REC})
	for _, m := range mounts {
		must.OK(m.do())
	}
	return nil
}

// control is the HTTP handler of a node's process 1.
type control struct{ reap *reaper }

type command struct {
	spec
	// With Wait, the answer is sent when the process has ended.
	Wait bool `json:"wait"`
}

type result struct {
	Code  int    `json:"code"`
	Error string `json:"error"`
}

func (c *control) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var o command
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var out result
	code, err := c.do(o)
	if out.Code = code; err != nil {
		out.Error = err.Error()
	}
	_ = json.NewEncoder(w).Encode(out)
}

func (c *control) do(o command) (code int, err error) {
	_, done, err := c.reap.start(o.spec)
	if err != nil || !o.Wait {
		return 0, err
	}
	return exitCode(<-done), nil
}

// nodeMachine is the sandbox's client of a node's process 1.
type nodeMachine struct {
	process *child.Process
	dir     string
	client  *http.Client
}

const machineStart = 2 * time.Minute

// startMachine starts process 1 of a node; dir is the node's folder.
func startMachine(ctx context.Context, name, dir string) (_ *nodeMachine, err error) {
	defer must.Return(&err)
	b := must.Get(json.Marshal(machineOptions{Hostname: name}))
	must.OK(os.WriteFile(filepath.Join(dir, "machine.json"), b, 0o600))
	socket := filepath.Join(dir, controlSocket)
	must.OK(os.RemoveAll(socket))
	self := must.Get(os.Executable())
	m := &nodeMachine{dir: dir, client: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}}}
	m.process = must.Get(child.Start(ctx, child.Command{
		Name: name, Path: self, Argv0: nodeStage, Args: []string{dir}, Log: filepath.Join(dir, "log", "machine.log"),
		Attr: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC},
	}))
	ctx, cancel := context.WithTimeout(ctx, machineStart)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
		if err == nil {
			return m, c.Close()
		}
		if gone := m.process.Err(); gone != nil {
			return nil, fmt.Errorf("%w\n%s", gone, child.Tail(m.process.Log, 5))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			m.kill()
			return nil, fmt.Errorf("process 1 of node %s does not answer: %w", name, errors.Join(err, ctx.Err()))
		}
	}
}

// kill kills all processes of the node at once.
func (m *nodeMachine) kill() {
	m.process.Stop(0)
	m.client.CloseIdleConnections()
}

func (m *nodeMachine) command(ctx context.Context, o command) (_ int, err error) {
	defer must.Return(&err)
	body := must.Get(json.Marshal(o))
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, "http://node/", bytes.NewReader(body)))
	resp, err := m.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	b := must.Get(io.ReadAll(resp.Body))
	var out result
	if err := json.Unmarshal(b, &out); err != nil {
		return 0, fmt.Errorf("%s: %w", b, err)
	}
	if out.Error != "" {
		return 0, errors.New(out.Error)
	}
	return out.Code, nil
}

// environment returns the environment of a node's programs.
func (m *nodeMachine) environment() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + m.dir, "TMPDIR=" + m.dir}
}

// start starts a program and does not wait for its end.
func (m *nodeMachine) start(ctx context.Context, name, path string, args ...string) error {
	_, err := m.command(ctx, command{spec: spec{
		Path: path, Args: append([]string{name}, args...), Env: m.environment(), Log: m.log(name),
	}})
	return err
}

// run runs a program and waits for its end; when it fails, the error holds the end of its output.
func (m *nodeMachine) run(ctx context.Context, path string, args ...string) error {
	log := m.log("run-" + filepath.Base(path))
	code, err := m.command(ctx, command{Wait: true, spec: spec{
		Path: path, Args: append([]string{path}, args...), Env: m.environment(), Log: log,
	}})
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d:\n%s", code, child.Tail(log, 5))
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", filepath.Base(path), strings.Join(args, " "), err)
	}
	return nil
}

func (m *nodeMachine) log(name string) string { return filepath.Join(m.dir, "log", name+".log") }
