// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	ocireg "github.com/google/go-containerregistry/pkg/registry"
	"github.com/spf13/cobra"
)

func newServeCommand() *cobra.Command {
	var listen, site string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve an empty registry and the directory of a web site, to try a release",
		Long: "Serve an in-memory registry (at /v2) and the directory of `release publish --site` (all other paths) until\n" +
			"interrupted. The first line of output is the address. For tests only: no TLS, no authentication.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), listen, site, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address; port 0 means a free port")
	cmd.Flags().StringVar(&site, "site", "dist/site", "directory of the web site")
	return cmd
}

// trialHandler serves an in-memory registry and a web site.
func trialHandler(site string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/v2/", ocireg.New(ocireg.Logger(log.New(io.Discard, "", 0)), ocireg.WithReferrersSupport(true)))
	mux.Handle("/", http.FileServer(http.Dir(site)))
	return mux
}

func serve(ctx context.Context, listen, site string, out io.Writer) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: trialHandler(site), ReadHeaderTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if _, err := fmt.Fprintf(out, "%s\n", listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
