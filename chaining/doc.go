// Package chaining treats a CNI network configuration list as data: it parses one, inserts, replaces and removes a
// plugin's entry without touching any other byte, and says whether our entry is chained in it. It reads a CNI
// configuration directory as a runtime does, says what would be loaded, which strategy keeps an entry in it, and holds
// every reason why a chain is not good, with its fix.
//
// Values in, values out: files are read only through an [io/fs.FS] that is handed in ([ReadDirectory]). What is accepted is
// strict on purpose, because an accepted list may end up where a container runtime loads it, and a runtime that meets
// a broken list takes the node down. Everything accepted here, libcni v1.3.1 accepts too, with the same name, version
// and plugin types; a fuzz test holds that with libcni as the oracle.
//
// Refused although libcni accepts it:
//
//   - a key given twice in one object, or a second key that only differs by case from one that counts ("Type"):
//     two readers could see two different values
//   - invalid UTF-8 and lone surrogates, which re-serialising would silently change
//   - more than [MaxSize] bytes, 64 levels or 65536 values; exponents of more than nine digits
//   - a list without inline plugins (libcni would look for drop-ins only)
//   - a network name libcni refuses later, when a pod starts, or one too long to be a directory's name
//   - a plugin type that can't be a file's name, or does not look like the name of one: it starts with a letter or a
//     digit and goes on with those, ".", "_" and "-"
//   - a version that is not three numbers, as in 1.0.0 (an empty or absent one is accepted: it means 0.1.0)
//   - text that still holds a template's {{ }}
package chaining
