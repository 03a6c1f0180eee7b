// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gateway builds Traefik. Command real-nodes runs the examples of Gateway API and Ingress with it.
package gateway

import (
	"context"
	_ "embed"
	"encoding/json"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/internal/program"
)

// Version is the version of Traefik.
const Version = "v3.7.13"

const (
	traefik = "github.com/traefik/traefik/v3"
	lego    = "github.com/go-acme/lego/v5"
	api     = "sigs.k8s.io/gateway-api"
)

var (
	// sums are the sums of the modules that Traefik's own go.sum lacks.
	//
	//go:embed traefik.sum
	sums []byte
	//go:embed dns.go.tmpl
	noProviders []byte
)

// Programs are the files that the examples need.
type Programs struct {
	// Traefik is the program. Its version is "dev", so it never looks for a newer version on the Internet.
	Traefik string
	// CRDs is the folder with the CRDs of Gateway API.
	CRDs string
}

// Ensure returns the programs. It builds them if they do not exist (see program.Ensure).
func Ensure(ctx context.Context, out io.Writer) (built Programs, err error) {
	defer must.Return(&err)
	p := program.Program{
		What:     "Traefik " + Version,
		Takes:    "3 to 8 minutes",
		Name:     "traefik",
		Folder:   "gateway",
		Release:  Version,
		Packages: []string{traefik + "/cmd/traefik"},
		LDFlags:  "-s -w",
	}
	p.Source = program.Module(ctx, p.Folder, p.Release, module(ctx), p.Packages...)

	built.Traefik = must.Get(p.Ensure(ctx, out))
	built.CRDs = filepath.Join(download(ctx, p.Source, api), "config", "crd", "standard")
	return built, nil
}

// module returns the files of a module that requires Traefik and has the requirements of Traefik's own module, except:
//
//   - ext, which is not published, is empty, as in Traefik itself;
//   - lego, which gets certificates, has no DNS providers;
//   - a fork for basic authentication is replaced by the version that Traefik uses.
func module(ctx context.Context) map[string][]byte {
	work := must.Get(os.MkdirTemp("", "csccm-traefik-"))
	defer func() { _ = os.RemoveAll(work) }()
	write := func(name string, content []byte) { must.OK(os.WriteFile(filepath.Join(work, name), content, 0o600)) }
	read := func(dir, name string) []byte {
		return must.Get(os.ReadFile(filepath.Join(dir, name))) // #nosec G304 -- of a module
	}

	write("go.mod", []byte("module traefik\n"))
	write("go.sum", sums)
	theirs := download(ctx, work, traefik+"@"+Version)
	allSums := append(read(theirs, "go.sum"), sums...)

	mod := must.Get(modfile.Parse("go.mod", read(theirs, "go.mod"), nil))
	must.OK(mod.AddModuleStmt("github.com/csccm/csccm/test/gateway/traefik"))
	must.OK(mod.AddRequire(traefik, Version))
	must.OK(mod.AddReplace("github.com/traefik/traefik/dynamic/ext", "", "./ext", ""))
	must.OK(mod.AddReplace("github.com/abbot/go-http-auth", "",
		"github.com/containous/go-http-auth", "v0.4.1-0.20200324110947-a37a7636d23e"))
	write("go.mod", must.Get(mod.Format()))
	write("go.sum", allSums)
	files := filesOf(download(ctx, work, lego), "lego")

	must.OK(mod.AddReplace(lego, "", "./lego", ""))
	maps.Copy(files, map[string][]byte{
		"go.mod":     must.Get(mod.Format()),
		"go.sum":     allSums,
		"ext/go.mod": []byte("module github.com/traefik/traefik/dynamic/ext\n"),
		"ext/ext.go": []byte("package ext\n\ntype (\n\tHTTP   struct{}\n\tRouter struct{}\n)\n"),

		"lego/providers/dns/zz_gen_dns_providers.go": noProviders,
	})
	return files
}

// filesOf returns the Go files of a module without its tests and DNS providers, and its go.mod.
func filesOf(module, to string) map[string][]byte {
	files := map[string][]byte{}
	providers := filepath.Join("providers", "dns") + string(filepath.Separator)
	must.OK(filepath.WalkDir(module, func(path string, d fs.DirEntry, err error) error {
		name := must.Get(filepath.Rel(module, path))
		source := strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
		if err != nil || d.IsDir() || !source && name != "go.mod" || strings.HasPrefix(name, providers) {
			return err
		}
		files[filepath.Join(to, name)] = must.Get(os.ReadFile(path)) // #nosec G122 G304 -- of a module
		return nil
	}))
	return files
}

// download returns the folder of a module: of the version that the module in dir requires, or of the version in path.
// Its sum must be in the go.sum in dir.
func download(ctx context.Context, dir, path string) string {
	var module struct{ Dir string }
	must.OK(json.Unmarshal([]byte(must.Get(program.Go(ctx, dir, "mod", "download", "-json", path))), &module))
	return module.Dir
}
