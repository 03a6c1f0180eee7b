// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/test/testenv"
)

const (
	commandLimit = 10 * time.Minute // of one run of csccm
	stepLimit    = 4 * time.Minute  // of one wait, with slow routers
	quickLimit   = 75 * time.Second // of one wait with a simulator
	interruptFor = 15 * time.Second
	secretName   = "cloudstack-secret" // #nosec G101 -- a name
	deployment   = "cloudstack-cloud-controller-manager"
	taint        = "node.cloudprovider.kubernetes.io/uninitialized"
	shutdown     = "node.cloudprovider.kubernetes.io/shutdown"
)

// csccm runs the command line tool without a terminal and returns what it says. Another exit code than 0 is an error.
func (p *place) csccm(ctx context.Context, args ...string) (string, error) {
	out, code, err := p.csccmCode(ctx, args...)
	if err == nil && code != 0 {
		err = fmt.Errorf("csccm %s ended with %d:\n%s", args[0], code, tail(out, 25))
	}
	return out, err
}

// csccmCode is csccm where the exit code is looked at.
func (p *place) csccmCode(ctx context.Context, args ...string) (out string, code int, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.Programs.CLI, args...) // #nosec G204 -- the product, with arguments of this suite
	cmd.Env = []string{"KUBECONFIG=" + p.cluster.Kubeconfig, "HOME=" + p.home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + p.dir}
	cmd.Dir = p.home
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = interruptFor
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return string(text), -1, err
	}
	if ctx.Err() != nil {
		return string(text), -1, context.Cause(ctx)
	}
	return string(text), cmd.ProcessState.ExitCode(), nil
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// secretFile writes a secret where csccm reads it; the folder goes with the run.
func (p *place) secretFile(name, text string) (string, error) {
	path := filepath.Join(p.home, name)
	return path, os.WriteFile(path, []byte(text+"\n"), 0o600)
}

// How a cluster gets its controller.
const (
	byRoot        = "root administrator"
	byDomainAdmin = "domain administrator"
	byKeys        = "keys"
)

// install runs csccm install.
func (p *place) install(ctx context.Context, how string, more ...string) (string, error) {
	args := []string{
		"install", "--yes", "--api-url", p.productURL, "--zone", p.world.Offers.Zone, "--timeout", "8m",
		"--set", "hostNetwork=false", "--set", "bindAddress=$(POD_IP)", "--set", "replicaCount=1",
		"--set", "tenancy.trustedNamespaces={kube-system," + trusted + "}",
	}
	login, err := p.login(how)
	if err != nil {
		return "", err
	}
	args = append(args, login...)
	if p.project != "" {
		args = append(args, "--project", p.project)
	}
	out, err := p.csccm(ctx, append(args, more...)...)
	if err != nil {
		return out, err
	}
	p.installed, p.installedBy = true, how
	return out, p.initialized(ctx, p.names()...)
}

// login are the flags of a way to give credentials.
func (p *place) login(how string) ([]string, error) {
	w := p.world
	if how == byKeys || !w.Can.Admin {
		key, err := p.secretFile("api.key", w.Keys.APIKey)
		if err != nil {
			return nil, err
		}
		secret, err := p.secretFile("secret.key", w.Keys.SecretKey)
		return []string{"--api-key-file", key, "--secret-key-file", secret}, err
	}
	account := []string{"--account", w.Account}
	who := p.Who
	if how == byDomainAdmin {
		who = w.DomainAdmin
	} else {
		account = append(account, "--domain", w.DomainPath)
	}
	if p.projectID != "" {
		account = []string{"--account", w.Name("prj"), "--create-account", "--role-name", w.Name("role"), "--domain", w.DomainPath}
	}
	admin, err := p.adminFlags(who.APIKey, who.SecretKey, who.User, who.Password, who.Domain)
	return append(admin, account...), err
}

// adminFlags are the flags of an administrator's keys or login.
func (p *place) adminFlags(key, secret, user, password, domain string) ([]string, error) {
	if key != "" {
		k, err := p.secretFile("admin-api.key", key)
		if err != nil {
			return nil, err
		}
		s, err := p.secretFile("admin-secret.key", secret)
		return []string{"--admin-api-key-file", k, "--admin-secret-key-file", s}, err
	}
	file, err := p.secretFile("admin-password", password)
	flags := []string{"--admin-user", user, "--admin-password-file", file}
	if domain != "" {
		flags = append(flags, "--admin-domain", domain)
	}
	return flags, err
}

// ensureInstalled installs where no controller is.
func (p *place) ensureInstalled(ctx context.Context) error {
	if p.installed {
		return nil
	}
	_, err := p.install(ctx, byRoot)
	return err
}

// ensureRemoved uninstalls where a controller is.
func (p *place) ensureRemoved(ctx context.Context) error {
	if !p.installed {
		return nil
	}
	_, err := p.uninstall(ctx)
	return err
}

func (p *place) uninstall(ctx context.Context, more ...string) (string, error) {
	out, err := p.csccm(ctx, append([]string{"uninstall", "--yes", "--delete-secret"}, more...)...)
	if err == nil {
		p.installed = false
	}
	return out, err
}

// until waits for something.
func (p *place) until(ctx context.Context, what string, try func(context.Context) error) error {
	limit := stepLimit
	if p.simulator != nil {
		limit = quickLimit
	}
	return testenv.Wait(ctx, limit, what, try)
}

// initialized waits until the controller has initialised nodes.
func (p *place) initialized(ctx context.Context, names ...string) error {
	for _, name := range names {
		err := p.until(ctx, "node "+name+" to be initialised", func(ctx context.Context) error {
			n, err := p.cluster.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if hasTaint(n, taint) || n.Spec.ProviderID == "" || n.Labels[corev1.LabelTopologyZone] == "" {
				return fmt.Errorf("taints %v, provider ID %q, zone %q", n.Spec.Taints, n.Spec.ProviderID, n.Labels[corev1.LabelTopologyZone])
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func hasTaint(n *corev1.Node, key string) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == key {
			return true
		}
	}
	return false
}
