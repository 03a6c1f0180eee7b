// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command guest runs in the Pods of the tests of process nodes: it reports what it sees
// of its container, and its probes fail on request.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

type report struct {
	UID, GID, PID int
	Dir           string
	Args          []string
	Env           []string
	Root          []string // names in /
	Files         map[string]string
	WritableRoot  bool
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address")
	flag.String("kubeconfig", "", "not used; the arguments are reported")
	var files list
	flag.Var(&files, "file", "file to report (repeatable)")
	flag.Parse()
	fmt.Println("guest starts")
	var sick, unready atomic.Bool
	answer := func(bad *atomic.Bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if bad.Load() {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}
	}
	http.HandleFunc("/livez", answer(&sick))
	http.HandleFunc("/readyz", answer(&unready))
	http.HandleFunc("/sick", func(http.ResponseWriter, *http.Request) { sick.Store(true) })
	http.HandleFunc("/unready", func(http.ResponseWriter, *http.Request) { unready.Store(true) })
	http.HandleFunc("/report", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(look(files)) })
	server := &http.Server{Addr: *listen, ReadHeaderTimeout: time.Minute}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		<-ctx.Done()
		fmt.Println("guest was asked to end")
		_ = server.Close()
	}()
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		fmt.Println(err)
		os.Exit(1)
	}
}

func look(files []string) report {
	r := report{UID: os.Getuid(), GID: os.Getgid(), PID: os.Getpid(), Args: os.Args, Env: os.Environ(), Files: map[string]string{}}
	r.Dir, _ = os.Getwd()
	entries, _ := os.ReadDir("/")
	for _, e := range entries {
		r.Root = append(r.Root, e.Name())
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			b = []byte(err.Error())
		}
		r.Files[f] = string(b)
	}
	r.WritableRoot = os.WriteFile("/probe", nil, 0o600) == nil
	return r
}

type list []string

func (l *list) String() string     { return fmt.Sprint(*l) }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }
