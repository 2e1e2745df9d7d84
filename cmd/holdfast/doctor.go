package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-cni/holdfast/watcher/cri"
	"github.com/holdfast-cni/holdfast/watcher/node"
)

func newDoctor() *cobra.Command {
	var in doctorInput
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Explain a node: which list its runtime would load, whether the plugin is chained in it, and what to do",
		Long: `Doctor reads a node's files, or a copy of them, and says which files the runtime looks at, which list counts and why, every
plugin in it, whether the plugin's entry is there once, equal and last, who renamed what, and the fix. It writes nothing. What
it proves is proved of files alone (proof: file), and a runtime can miss a file; with --cri it asks the runtime as well, and
judges what that has loaded (proof: runtime).

Exit code 0: chained. 1: not chained. 2: the command line is wrong.`,
		Example: `  sudo holdfast doctor --plugin plugin.json
  sudo holdfast doctor --plugin plugin.json --cri /run/containerd/containerd.sock
  holdfast doctor --root /tmp/node-copy -o json
  holdfast doctor --root net.d --conf-dir / --runtime crio --drop-ins=false`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := in.diagnose(cmd.Context(), &files{ctx: cmd.Context(), stdin: cmd.InOrStdin()})
			if err != nil {
				return usageError{err}
			}
			out := []byte(report.String())
			if in.output == "json" {
				if out, err = json.MarshalIndent(report, "", "  "); err != nil {
					return fmt.Errorf("encode the report: %w", err)
				}
				out = append(out, '\n')
			}
			if _, err := cmd.OutOrStdout().Write(out); err != nil {
				return fmt.Errorf("print the report: %w", err)
			}
			if !report.Verdict.Chained {
				return errFinding
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&in.root, "root", "/", "the node's root directory, or a copy of it; links in it stay in it")
	f.StringVar(&in.plugin, "plugin", "", "file with plugin.json, or with a ConfigMap that has it; without it only presence and place are judged")
	f.StringVar(&in.cri, "cri", "", "CRI socket of the node's runtime, to ask what it has loaded; auto finds it under the root")
	f.StringVar(&in.ConfDir, "conf-dir", "", "CNI configuration directory, as the node sees it; by default what the runtime is told, else a known one")
	f.StringVar(&in.Runtime, "runtime", "", "containerd or crio; by default what the node's files tell")
	f.StringVar(&in.dropins, "drop-ins", "auto", "whether the runtime reads drop-ins: true, false, or auto, which assumes a current one")
	f.StringVarP(&in.output, "output", "o", "text", "text or json")
	return cmd
}

// askTime is how long a runtime may take to answer.
const askTime = 10 * time.Second

type doctorInput struct {
	node.Options
	root, plugin, dropins, cri, output string
}

func (in *doctorInput) diagnose(ctx context.Context, files *files) (node.Report, error) {
	if !slices.Contains([]string{"text", "json"}, in.output) {
		return node.Report{}, fmt.Errorf("--output %q: write text or json", in.output)
	}
	if !slices.Contains([]string{"", node.Containerd, node.CRIO}, in.Runtime) {
		return node.Report{}, fmt.Errorf("--runtime %q: write %s or %s", in.Runtime, node.Containerd, node.CRIO)
	}
	if in.dropins != "auto" {
		read, err := strconv.ParseBool(in.dropins)
		if err != nil {
			return node.Report{}, fmt.Errorf("--drop-ins %q: write true, false or auto", in.dropins)
		}
		in.Dropins = &read
	}
	if in.plugin != "" {
		data, err := files.read(in.plugin)
		if err != nil {
			return node.Report{}, err
		}
		if entry, err := node.ParsePlugin(data, checkPlugin); err != nil {
			in.PluginErr = err
		} else {
			in.Plugin = &entry
		}
	}
	root, err := os.OpenRoot(in.root)
	if err != nil {
		return node.Report{}, fmt.Errorf("--root: %w", err)
	}
	defer root.Close()
	if err := in.ask(ctx, root.FS()); err != nil {
		return node.Report{}, err
	}
	return node.Diagnose(root.FS(), in.Options)
}

// ask puts the runtime's answer into the options; that there is none is a finding.
func (in *doctorInput) ask(ctx context.Context, fsys fs.FS) error {
	socket := in.cri
	switch socket {
	case "":
		return nil
	case "auto":
		var why string
		if socket, why = node.FindSocket(fsys); socket == "" {
			return fmt.Errorf("--cri auto: %s; name the socket", why)
		}
	}
	at, err := node.Resolve(fsys, socket)
	if err != nil {
		return fmt.Errorf("--cri %s: not under the root %s: %w", socket, in.root, err)
	}
	runtime, err := cri.Dial(filepath.Join(in.root, at), socket)
	if err != nil {
		return fmt.Errorf("--cri: %w", err)
	}
	defer runtime.Close()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	in.Answer, in.AnswerErr = runtime.Ask(ctx)
	return nil
}
