// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gateway builds Traefik, with which scenarios of test/real-nodes run the Gateway API examples of docs/examples:
// from its own modules, without ACME (traefik/noacme). It also finds the CRDs of Gateway API.
package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/modfile"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/internal/program"
	"github.com/csccm/csccm/test/plane"
)

const (
	traefik = "github.com/traefik/traefik/v3"
	api     = "sigs.k8s.io/gateway-api"
)

// Traefik returns the program, in the version that its go.mod requires. It calls its version "dev", which never looks
// for a newer one on the Internet.
func Traefik() (_ program.Program, err error) {
	defer must.Return(&err)
	source := must.Get(source())
	version := must.Get(required(source, traefik))
	return program.Program{
		What: "Traefik " + version, Takes: "3 to 8 minutes", Name: "traefik", Folder: "gateway", Release: version,
		Source: source, Package: traefik + "/cmd/traefik", LDFlags: "-s -w",
	}, nil
}

// CRDs returns the folder with the CRDs of Gateway API's standard channel, in the version that Traefik requires.
func CRDs(ctx context.Context) (_ string, err error) {
	defer must.Return(&err)
	source := must.Get(source())
	var m struct{ Dir string }
	must.OK(json.Unmarshal([]byte(must.Get(program.Go(ctx, source, "mod", "download", "-json", api))), &m))
	return filepath.Join(m.Dir, "config", "crd", "standard"), nil
}

func source() (string, error) {
	module, err := plane.ModuleDir()
	return filepath.Join(module, "gateway", "traefik"), err
}

// required returns the version of a module that the go.mod in dir requires.
func required(dir, path string) (_ string, err error) {
	defer must.Return(&err)
	name := filepath.Join(dir, "go.mod")
	text, err := os.ReadFile(name) // #nosec G304 -- of this checkout
	if err != nil {
		return "", err
	}
	file := must.Get(modfile.ParseLax(name, text, nil))
	for _, r := range file.Require {
		if r.Mod.Path == path {
			return r.Mod.Version, nil
		}
	}
	return "", fmt.Errorf("%s does not require %s", name, path)
}
