// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/prompt"
	"github.com/csccm/csccm/installer/report"
)

// asks reports whether the command can ask for missing values at a terminal.
func (s *Service) asks() bool { return s.Interactive && !s.Yes && !s.Structured() }

// nothing is the choice that leaves an optional flag unset.
const nothing = "none"

// askWhatIsMissing asks, at a terminal, for the zone and the offering of a new cluster. If no offering is given, it
// also offers the options of flexible clusters: the templates that are marked for CKS, and the CNI configurations.
func (t *task) askWhatIsMissing(ctx context.Context) error {
	open := t.Offering+t.WorkerOffering == ""
	if !t.asks() {
		return nil
	}

	release, err := t.release(ctx)
	if err != nil {
		return err
	}

	optional := []string{"worker-template", "control-template", "cni"}
	for _, f := range t.Flags("create") {
		required := f.Name == "zone" || f.Name == "offering" && open
		offered := open && slices.Contains(optional, f.Name) && release != nil && release.Minor() >= 21
		if f.given() || !required && !offered {
			continue
		}

		names, err := t.Names(ctx, f.Names)
		if err != nil {
			return explain("list what --"+f.Name+" can name", err)
		}

		if offered && len(names) > 0 {
			names = append([]string{nothing}, names...)
		}

		if len(names) < 2 {
			continue
		}

		answer, err := t.ask(ctx, f.Name, f.Help, names)
		if err != nil {
			return err
		}

		if to, ok := f.Value.(*string); ok && answer != nothing {
			*to = answer
		}
	}

	return nil
}

// ask asks for the value of a flag: one of the choices, or free text if there are none.
func (s *Service) ask(ctx context.Context, flag, help string, choices []string) (string, error) {
	what, _, _ := strings.Cut(help, " (")
	q := prompt.Question{Message: report.Capital(what), Help: help, Flag: "--" + flag}
	for _, c := range choices {
		q.Choices = append(q.Choices, prompt.Choice{Value: c})
	}

	return s.Prompt.Ask(ctx, q)
}

// asNumber is the variable of CNI configurations that CloudStack sets itself.
const asNumber = "AS_NUMBER"

// cni returns the id of the CNI configuration that --cni names, and a value for each variable that it declares: from
// --cni-param, or asked for at the terminal.
func (t *task) cni(ctx context.Context) (id string, values map[string]string, err error) {
	n := &cloudapi.CNIConfig{}
	if t.CNI != "" {
		all, err := t.API.ListCNIConfigs(ctx, t.Project)
		if err != nil {
			return "", nil, explain("list the CNI configurations", err)
		}
		if n, err = pick("cni", " with --cni", t.CNI, all, namesOfCNI); err != nil {
			return "", nil, err
		}
	}

	values, declared := map[string]string{}, variables(n.Params)
	for _, given := range t.CNIParams {
		name, value, _ := strings.Cut(given, "=")
		if !slices.Contains(declared, name) || value == "" {
			return "", nil, report.Usage(
				"give --cni, and KEY=VALUE for each of its variables: "+dash(strings.Join(declared, ", ")),
				"--cni-param %s is not a variable with a value (KEY=VALUE)", name,
			)
		}
		values[name] = value
	}

	var missing []string
	for _, name := range declared {
		filledIn := name == asNumber && (t.ASNumber != 0 || t.Network != "")
		if values[name] != "" || filledIn {
			continue
		}

		if t.asks() {
			if values[name], err = t.ask(
				ctx, "cni-param "+name, "variable "+name+" of CNI configuration "+n.Name, nil,
			); err != nil {
				return "", nil, err
			}
		}

		if values[name] == "" {
			missing = append(missing, name)
		}
	}

	if len(missing) > 0 {
		return "", nil, report.Usage(
			"give --cni-param "+strings.Join(missing, "=VALUE --cni-param ")+"=VALUE",
			"CNI configuration %s declares %s, without a value", n.Name, strings.Join(missing, ", "),
		)
	}

	return n.ID, values, nil
}

// readRegistry reads a registry and its login from a file in the format of docker's config.json. Errors do not quote
// the file, because it holds a password.
func readRegistry(file string) (r cloudapi.Registry, err error) {
	if file == "" {
		return r, nil
	}

	invalid := report.Usage(
		`write {"auths": {"URL": {"username": "...", "password": "..."}}}, or copy one entry with auth out of `+
			"~/.docker/config.json",
		"--registry-file %s does not have the login of exactly one registry", file,
	)

	if mode, open := credentials.ExposedMode(file); open {
		return r, report.Usage("chmod 600 "+file, "other users may read --registry-file %s (mode %04o)", file, mode)
	}

	text, err := os.ReadFile(file) // #nosec G304 -- the user names it
	if err != nil {
		return r, report.Usage("name a file that exists and that you may read", "--registry-file: %v", err)
	}

	var config struct {
		Auths map[string]struct{ Username, Password, Auth string }
	}
	if json.Unmarshal(text, &config) != nil || len(config.Auths) != 1 {
		return r, invalid
	}

	for url, login := range config.Auths {
		both, err := base64.StdEncoding.DecodeString(login.Auth)
		if err != nil {
			return r, invalid
		}
		name, password, _ := strings.Cut(string(both), ":")
		r = cloudapi.Registry{
			URL:      url,
			Username: cmp.Or(login.Username, name),
			Password: cmp.Or(login.Password, password),
		}
	}

	if r.URL == "" || r.Username == "" || r.Password == "" {
		return cloudapi.Registry{}, invalid
	}

	return r, nil
}
