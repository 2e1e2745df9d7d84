package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/watcher"
)

func newRender() *cobra.Command {
	var in renderInput
	cmd := &cobra.Command{
		Use:   "render",
		Short: "Print the ConfigMap for Cilium, offline, and what is wrong with its configuration",
		Long: `Render prints the ConfigMap that Cilium should read through cni.configMap, made from files alone, and says on stderr what is
wrong with Cilium's configuration. A file may hold one object or a whole stream of them, such as the output of helm template
or of kubectl get --output yaml; - is standard input.

Exit code 0: nothing asks for action. 1: there is a finding. 2: the command line is wrong.`,
		Example: `  kubectl -n kube-system get cm cilium-config -o yaml | holdfast render --cilium-config - --plugin plugin.json
  helm template cilium cilium/cilium | holdfast render --cilium-config - --plugin plugin.json -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := in.validate(); err != nil {
				return usageError{err}
			}
			return in.render(&files{ctx: cmd.Context(), stdin: cmd.InOrStdin()}, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&in.config, "cilium-config", "", "file with ConfigMap cilium-config, and whatever else is known of Cilium (required)")
	f.StringVar(&in.plugin, "plugin", "", "file with plugin.json, or with a ConfigMap that has it (required)")
	f.StringVar(&in.existing, "existing", "", "file with the list that is there now, or with the ConfigMap that has it")
	f.StringArrayVar(&in.nodeConfigs, "node-config", nil, "file with CiliumNodeConfigs, or Nodes; may be repeated")
	f.StringVar(&in.name, "configmap", configmap.DefaultConfigMap, "name of the ConfigMap to print")
	f.StringVar(&in.namespace, "cilium-namespace", "", "namespace that Cilium runs in; by default that of cilium-config, else kube-system")
	f.StringVar(&in.release, "release", "", "namespace/name of the Holdfast release that is to own the ConfigMap; by default any may")
	f.StringVarP(&in.output, "output", "o", "yaml", "yaml, with the findings on stderr, or json, with the findings in it")
	return cmd
}

type renderInput struct {
	config, plugin, existing, name, namespace, release, output string
	nodeConfigs                                                []string
}

// validate reports the first flag that cannot be: what is printed may be piped into kubectl apply.
func (in *renderInput) validate() error {
	namespace, name, both := strings.Cut(in.release, "/")
	switch {
	case !slices.Contains([]string{"yaml", "json"}, in.output):
		return fmt.Errorf("--output %q: write yaml or json", in.output)
	case in.config == "" || in.plugin == "":
		return errors.New("--cilium-config and --plugin are required; see holdfast render --help")
	case in.name == configmap.DefaultConfigName || len(validation.IsDNS1123Subdomain(in.name)) > 0:
		return fmt.Errorf("--configmap %q: cannot be the name of the list's ConfigMap; the default is %s", in.name, configmap.DefaultConfigMap)
	case in.release != "" && (!both || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Label(name)) > 0):
		return fmt.Errorf("--release %q: write namespace/name", in.release)
	}
	return nil
}

// render reads, plans, prints.
func (in *renderInput) render(files *files, stdout, stderr io.Writer) error {
	offline, err := in.read(files)
	if err != nil {
		return err
	}
	result := offline.Render(checkPlugin)
	var out []byte
	if in.output == "json" {
		if out, err = json.MarshalIndent(result, "", "  "); err != nil {
			return fmt.Errorf("encode the result: %w", err)
		}
		out = append(out, '\n')
	} else {
		if out, err = manifest(result.ConfigMap); err != nil {
			return err
		}
		for _, f := range result.Findings {
			fmt.Fprintln(stderr, f)
		}
	}
	if _, err := stdout.Write(out); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	if slices.ContainsFunc(result.Findings, configmap.Finding.Counts) {
		return errFinding
	}
	return nil
}

func (in *renderInput) read(files *files) (*configmap.Offline, error) {
	o := &configmap.Offline{Name: in.name, Namespace: in.namespace, Release: in.release,
		Taint: corev1.Taint{Key: watcher.Taint, Effect: corev1.TaintEffectNoSchedule}}
	for _, file := range []struct {
		path string
		to   *[]byte
	}{{in.config, &o.Config}, {in.plugin, &o.Plugin}, {in.existing, &o.Existing}} {
		if file.path == "" {
			continue
		}
		data, err := files.read(file.path)
		if err != nil {
			return nil, err
		}
		*file.to = data
	}
	for _, path := range in.nodeConfigs {
		data, err := files.read(path)
		if err != nil {
			return nil, err
		}
		o.NodeConfigs = append(o.NodeConfigs, data)
	}
	return o, nil
}

// manifest is the ConfigMap as kubectl apply takes it; nothing where there is none.
func manifest(cm *corev1.ConfigMap) ([]byte, error) {
	if cm == nil {
		return nil, nil
	}
	out, err := yaml.Marshal(cm)
	if err != nil {
		return nil, fmt.Errorf("encode the ConfigMap: %w", err)
	}
	return out, nil
}

// files reads files and, once, standard input.
type files struct {
	ctx   context.Context
	stdin io.Reader
	used  bool
}

// read reads a whole file, which may be a pipe, until the context ends.
func (f *files) read(path string) ([]byte, error) {
	from, name := func() (io.Reader, error) { return f.stdin, nil }, "standard input"
	if path != "-" {
		from, name = func() (io.Reader, error) { return os.Open(path) }, path
	} else if f.used {
		return nil, usageError{errors.New("only one file can be -, standard input")}
	}
	f.used = f.used || path == "-"
	type outcome struct {
		data []byte
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		r, err := from()
		if err != nil {
			done <- outcome{nil, err}
			return
		}
		data, err := io.ReadAll(io.LimitReader(r, configmap.MaxDocuments+1))
		if c, ok := r.(*os.File); ok && path != "-" {
			err = errors.Join(err, c.Close())
		}
		done <- outcome{data, err}
	}()
	select {
	case <-f.ctx.Done():
		return nil, fmt.Errorf("read %s: %w", name, context.Cause(f.ctx))
	case o := <-done:
		switch {
		case o.err != nil && path != "-":
			return nil, usageError{o.err}
		case o.err != nil:
			return nil, fmt.Errorf("read standard input: %w", o.err)
		case len(o.data) > configmap.MaxDocuments && path != "-":
			return nil, usageError{fmt.Errorf("%s: has more than %d bytes", path, configmap.MaxDocuments)}
		}
		return o.data, nil
	}
}
