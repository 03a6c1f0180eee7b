// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command reader simulates a program that uses the controller's keys without reloading them, such as a CSI driver: it
// reads the cloud-config once at its start and calls CloudStack until it ends. It is ready while its calls succeed.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

func main() {
	file, listen := flag.String("cloud-config", "", "file"), flag.String("listen", "", "address of /readyz")
	flag.StringVar(file, "cloudstack-config", "", "the same, as the CSI driver for CloudStack names it")
	flag.Parse()
	if err := run(*file, *listen); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func run(file, listen string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}

	cfg, err := cloudconfig.Parse(f)
	if err != nil {
		return err
	}

	client, err := cloudstack.NewClient(cfg)
	if err != nil {
		return err
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var works atomic.Bool
	server := &http.Server{
		Addr:              listen,
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if !works.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}),
	}

	go func() { _ = server.ListenAndServe() }()
	for each := time.NewTicker(250 * time.Millisecond); ctx.Err() == nil; {
		_, err := cloudstack.List(ctx, client, "listSSHKeyPairs", "sshkeypair", nil,
			func(p *struct{ Name string }) string { return p.Name })
		if err != nil && ctx.Err() == nil {
			fmt.Println("listSSHKeyPairs:", err)
		}
		works.Store(err == nil)
		select {
		case <-ctx.Done():
		case <-each.C:
		}
	}

	return server.Close()
}
