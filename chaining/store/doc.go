// Package store writes what [chaining.Directory.Change] says into a node's CNI configuration directory, and the plugin's
// executable into the runtime's bin directory.
//
// The contract, whatever happens at whatever moment (SIGKILL, power loss, a full disk, a directory that turned read-only):
// under each name there is either what was there before or all of what was to be there, and nothing else has a name that
// a runtime looks at. A file is written under a temporary name beside its own, made durable, renamed, and its directory
// made durable before the next step begins; so what is removed is removed only once what replaces it would survive
// a power loss. What an interrupted life leaves behind is [Sweep]'s to remove. After an error the file that it names is the
// old or the new one, and there is no temporary file where that can be helped.
//
// Directories are given as paths without links, and nothing is followed out of them: a drop-in directory that is a link, or
// is no directory, is refused. Names that are not Holdfast's own are refused, whatever the plan says.
//
// Libraries that write atomically (google/renameio) name files by path, and so follow a directory that was replaced by
// a link in the meantime; they also leave the directory's fsync to the caller. [os.Root] does what is needed.
package store
