"use strict";
const packed = Uint8Array.from(atob(document.getElementById("data").textContent), letter => letter.charCodeAt(0));
const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
new Response(unpacked).json().then(data => {
